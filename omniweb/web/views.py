"""Overview, the demo, and health."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page
from omniweb.core.jobs import enqueue
from omniweb.web import figures
from omniweb.web.demo import demo_place
from sandboxes.selectors import profiles_visible, runs_visible
from sandboxes.views.circuits import circuits_shown


@require_GET
@door(Action.VIEW)
def overview_view(request: Request) -> HttpResponse:
    """Show what is going on, or the first steps when nothing has happened yet."""
    actor = request.actor
    context: dict[str, Any] = {"may_configure": actor.may(Action.CONFIGURE)}
    if not runs_visible(actor).exists():
        context |= {"place": demo_place(actor.team), "has_agents": profiles_visible(actor).exists()}
        return page(request, "web/welcome.html", context)
    # Templates call these, so that the live part asks only for what it shows.
    names = ("waiting", "runs_active", "waits", "decisions", "providers", "failing", "broken")
    context |= {name: partial(getattr(figures, name), actor) for name in names}
    context |= circuits_shown(actor)
    return page(request, "web/overview.html", context | {"days": figures.DAYS})


@require_POST
@door(Action.CONFIGURE)
def demo_view(request: Request) -> HttpResponse:
    """Send the demo agent off; it asks for what it needs like any other."""
    assert request.actor.user is not None  # noqa: S101 - only people get through the door
    enqueue("web.demo_run", owner=request.actor.user.ref, team=request.actor.team.ref)
    messages.success(
        request, "The demo agent is on its way. Its requests appear here by themselves."
    )
    return HttpResponseRedirect(reverse("inbox"))


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
