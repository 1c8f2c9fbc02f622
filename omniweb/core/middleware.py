"""Middleware that costs no thread: an agent may wait for minutes behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

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
