"""Middleware that costs no thread: an agent may wait for minutes behind it.

Django calls each hook of its own middleware on a thread when it is asked asynchronously, in case
the hook blocks: some twenty changes of thread for a request, which took longer than most of what
is asked. Almost none of them blocks; `InLoop` calls them where the request is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csp import ContentSecurityPolicyMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin

from omniweb.core.errors import MethodNotAllowed, NotFound, OmniWebError
from omniweb.core.problems import API_PREFIXES, page_response, problem_response


class PassThrough:
    """Works the same under sync and async; subclasses prepare the request or answer exceptions."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Prepare the request and return the answer, or the coroutine of it."""
        self.prepare(request)
        answer = self.get_response(request)
        if isawaitable(answer):
            return self._finish_later(request, answer)
        return self.finish(request, answer)

    async def _finish_later(
        self, request: HttpRequest, answer: Awaitable[HttpResponseBase]
    ) -> HttpResponseBase:
        return self.finish(request, await answer)

    def prepare(self, request: HttpRequest) -> None:
        """Add to the request; must not touch the database."""

    def finish(self, request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
        """Return the answer, or another in its place; must not touch the database."""
        return answer


class ProblemMiddleware(PassThrough):
    """Turns errors of the tree that a view raises into answers."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer an error of the tree; leave any other to Django."""
        is_api = request.path.startswith(API_PREFIXES)
        if is_api and isinstance(error, Http404):
            error = NotFound(f"There is nothing at {request.path}")
        if not isinstance(error, OmniWebError):
            return None
        return problem_response(error) if is_api else page_response(request, error)

    def finish(self, request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
        """Let an API say as a problem, too, that it has no such method."""
        if answer.status_code != 405 or not request.path.startswith(API_PREFIXES):
            return answer
        problem = problem_response(MethodNotAllowed(f"{request.path} has no {request.method}"))
        problem["Allow"] = answer["Allow"]
        return problem


class NotKept(PassThrough):
    """Lets no browser and no proxy keep an answer that does not say itself how long it is good."""

    def finish(self, request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
        """Add what the answer leaves out."""
        answer.headers.setdefault("Cache-Control", "private, no-store")
        return answer


class InLoop(MiddlewareMixin):
    """Calls the hooks of a Django middleware in the event loop, save those that block."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        """Do what Django's own does, without changing threads."""
        before = getattr(self, "process_request", None)
        early: HttpResponseBase | None = before(request) if before else None
        answer = early or await cast("Awaitable[HttpResponseBase]", self.get_response(request))
        after: Callable[..., HttpResponseBase] | None = getattr(self, "process_response", None)
        if after is None:
            return answer
        if self.blocks_after(request):
            return await sync_to_async(after, thread_sensitive=True)(request, answer)
        return after(request, answer)

    def blocks_after(self, request: HttpRequest) -> bool:
        """Tell whether the hook for the answer would use the database."""
        return False


class Security(InLoop, SecurityMiddleware):
    """Redirects to HTTPS, and headers."""


class ContentSecurityPolicy(InLoop, ContentSecurityPolicyMiddleware):
    """The policy of what a page may load."""


class Sessions(InLoop, SessionMiddleware):
    """Sessions; one that was changed is saved."""

    def blocks_after(self, request: HttpRequest) -> bool:
        """Tell whether there is something to save."""
        return bool(request.session.modified)


class Common(InLoop, CommonMiddleware):
    """The length of the answer."""


class Csrf(InLoop, CsrfViewMiddleware):
    """Protection from forms of other sites."""

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            self.process_view = self._view_in_loop  # type: ignore[assignment]  # Django takes either

    async def _view_in_loop(self, *args: Any) -> HttpResponse | None:
        return super().process_view(*args)


class Authentication(InLoop, AuthenticationMiddleware):
    """The promise of a user."""


class Messages(InLoop, MessageMiddleware):
    """Messages for the next page; those that were added or shown are stored."""

    def blocks_after(self, request: HttpRequest) -> bool:
        """Tell whether there is something to store."""
        kept = getattr(request, "_messages", None)
        return kept is not None and (kept.used or kept.added_new)


class XFrameOptions(InLoop, XFrameOptionsMiddleware):
    """No page in a frame."""
