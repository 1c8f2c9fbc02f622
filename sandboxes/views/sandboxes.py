"""The fleet: every sandbox there is or was, and the way to end one."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page
from omniweb.core.pagination import paginate
from sandboxes.models import Sandbox
from sandboxes.models.sandbox import GONE
from sandboxes.providers.isolation import Evidence
from sandboxes.selectors import sandboxes_live, sandboxes_visible
from sandboxes.services.sandboxes import sandbox_end
from sandboxes.views.circuits import circuits_shown
from sandboxes.views.words import place_of

ENDABLE = frozenset({"ready", "asleep"})


@require_GET
@door(Action.VIEW)
def sandboxes_view(request: Request) -> HttpResponse:
    """The sandboxes that are not gone, or all of them."""
    is_all = request.GET.get("show") == "all"
    rows = sandboxes_visible(request.actor) if is_all else sandboxes_live(request.actor)
    found = paginate(rows, request.GET.get("cursor"))
    context = {
        "sandboxes": [{"sandbox": row, "place": place_of(row.run)} for row in found.items],
        "next_cursor": found.next_cursor,
        "is_all": is_all,
        **circuits_shown(request.actor),
    }
    return page(request, "sandboxes/sandboxes.html", context)


@require_GET
@door(Action.VIEW)
def sandbox_view(request: Request, ref: str) -> HttpResponse:
    """One sandbox: what it is, whose it is, and what finds it at its provider."""
    sandbox = sandboxes_visible(request.actor).by_ref(ref)
    executions = sandbox.executions.select_related("run__trajectory").order_by("-id")
    context = {
        "sandbox": sandbox,
        "run": sandbox.run,
        "place": place_of(sandbox.run),
        "proof": Evidence.from_dict(sandbox.isolation),
        "is_gone": sandbox.state in GONE,
        "is_endable": sandbox.state in ENDABLE and request.actor.may(Action.RUN_END),
        "command_count": executions.count(),
        "running_count": executions.filter(state="running").count(),
    }
    return page(request, "sandboxes/sandbox.html", context)


@require_POST
@door(Action.RUN_END)
def end_view(request: Request, ref: str) -> HttpResponse:
    """End a sandbox and go back to it."""
    sandbox: Sandbox = sandboxes_visible(request.actor).by_ref(ref)
    if sandbox_end(actor=request.actor, sandbox=sandbox):
        messages.success(request, "The sandbox is being ended.")
    else:
        messages.warning(request, "It cannot be ended as it stands; look at its state.")
    return HttpResponseRedirect(reverse("sandbox", args=[sandbox.ref]))
