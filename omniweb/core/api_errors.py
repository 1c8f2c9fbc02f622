"""Every error of the API as a problem document with a permanent code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from omniweb.core.errors import (
    InvalidInput,
    NotAuthenticated,
    NotFound,
    OmniWebError,
    Problem,
    TooLarge,
    TooMany,
)
from omniweb.core.problems import problem_response

logger = logging.getLogger(__name__)


def handlers_install(api: NinjaAPI) -> None:
    """Let an API answer all its errors as problems."""
    for kind, translate in _TRANSLATIONS.items():
        api.add_exception_handler(kind, _handler(translate))


def _handler(
    translate: Callable[[Any], OmniWebError],
) -> Callable[[HttpRequest, Any], HttpResponse]:
    def answer(request: HttpRequest, error: Any) -> HttpResponse:
        return problem_response(translate(error))

    return answer


def _invalid(error: ValidationError) -> OmniWebError:
    return InvalidInput(
        problems=[
            Problem(
                # The first two places are the part of the request and our name for it.
                path=".".join(str(place) for place in item["loc"][2:]) or str(item["loc"][-1]),
                message=str(item["msg"]).removeprefix("Value error, "),
            )
            for item in error.errors
        ]
    )


def _http_error(error: HttpError) -> OmniWebError:
    if isinstance(error.__cause__, RequestDataTooBig):
        return TooLarge("The body is larger than this address takes")
    return InvalidInput("The body is not valid JSON")


def _unexpected(error: Exception) -> OmniWebError:
    logger.error("the API failed", exc_info=error)
    return OmniWebError("OmniWeb failed; its log says why")


_TRANSLATIONS: dict[type[Exception], Callable[[Any], OmniWebError]] = {
    OmniWebError: lambda error: error,
    ValidationError: _invalid,
    AuthenticationError: lambda _: NotAuthenticated("Send a token: Authorization: Bearer omw_…"),
    Throttled: lambda _: TooMany(),
    HttpError: _http_error,
    Http404: lambda _: NotFound(),
    RequestDataTooBig: lambda _: TooLarge("The body is larger than this address takes"),
    Exception: _unexpected,
}
