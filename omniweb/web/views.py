"""Overview and health."""

from __future__ import annotations

from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page


@require_GET
@door(Action.VIEW)
def overview_view(request: Request) -> HttpResponse:
    """Show what is going on, or the first steps when nothing is."""
    return page(request, "web/overview.html", {})


@require_GET
def live_view(request: HttpRequest) -> JsonResponse:
    """Say that the process answers."""
    return JsonResponse({"status": "ok"})


@require_GET
def ready_view(request: HttpRequest) -> JsonResponse:
    """Say whether the database answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})
