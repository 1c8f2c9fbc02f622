"""How an error of the tree reaches a reader: problem+json, a toast, or a page."""

from __future__ import annotations

from typing import Any, NoReturn

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from omniweb.core.errors import InvalidInput, NotFound, OmniWebError

MEDIA_TYPE = "application/problem+json"
API_PREFIXES = ("/api/", "/sandbox/")


def problem(error: OmniWebError) -> dict[str, Any]:
    """Return an error as a problem document (RFC 9457) with our permanent code."""
    body: dict[str, Any] = {
        "type": f"urn:omniweb:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
    }
    if isinstance(error, InvalidInput):
        body["problems"] = [item.to_dict() for item in error.problems]
    return body | {name: value for name, value in error.extra.items() if value is not None}


def problem_response(error: OmniWebError) -> JsonResponse:
    """Return an error as a problem+json answer."""
    response = JsonResponse(problem(error), status=error.status, content_type=MEDIA_TYPE)
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="omniweb"'
    return response


def page_response(request: HttpRequest, error: OmniWebError) -> HttpResponse:
    """Return an error as a toast for htmx, as a page otherwise."""
    if getattr(request, "htmx", False):
        response = render(request, "components/toast.html", {"error": error}, status=error.status)
        response["HX-Retarget"] = "#toasts"
        response["HX-Reswap"] = "beforeend"
        return response
    return render(request, "errors/problem.html", {"error": error}, status=error.status)


@csrf_exempt
def nothing_here_view(request: HttpRequest) -> NoReturn:
    """Answer addresses below the APIs that name nothing."""
    raise NotFound(f"There is nothing at {request.path}")
