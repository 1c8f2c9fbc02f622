"""Middleware that costs no thread: an agent may wait for minutes behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse

from omniweb.core.errors import OmniWebError
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
        return self.get_response(request)

    def prepare(self, request: HttpRequest) -> None:
        """Add to the request; must not touch the database."""


class ProblemMiddleware(PassThrough):
    """Turns errors of the tree that a view raises into answers."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer an error of the tree; leave any other to Django."""
        if not isinstance(error, OmniWebError):
            return None
        if request.path.startswith(API_PREFIXES):
            return problem_response(error)
        return page_response(request, error)
