"""The fleet: every sandbox there is or was, and the way to end one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, SandboxUnsupported
from omniweb.core.htmx import page
from omniweb.core.pagination import paginate
from sandboxes.capabilities import Ability
from sandboxes.costs import written
from sandboxes.models import Sandbox, SandboxState
from sandboxes.models.sandbox import GONE
from sandboxes.providers.isolation import Evidence
from sandboxes.selectors import sandboxes_live, sandboxes_visible
from sandboxes.services.prices import Costing
from sandboxes.services.sandboxes import sandbox_end
from sandboxes.services.sleep import sandbox_pause, sandbox_wake
from sandboxes.views.circuits import circuits_shown
from sandboxes.views.running import running_in
from sandboxes.views.words import place_of, spec_or_none

ENDABLE = frozenset({"ready", "asleep"})


@require_GET
@door(Action.VIEW)
def sandboxes_view(request: Request) -> HttpResponse:
    """The sandboxes that are not gone, or all of them."""
    is_all = request.GET.get("show") == "all"
    rows = sandboxes_visible(request.actor) if is_all else sandboxes_live(request.actor)
    found = paginate(rows, request.GET.get("cursor"))
    costing = Costing(request.actor.team, now())
    context = {
        "sandboxes": [_row(request.actor, row, costing) for row in found.items],
        "next_cursor": found.next_cursor,
        "is_all": is_all,
        "may_act": request.actor.may(Action.RUN_END),
        **circuits_shown(request.actor),
    }
    return page(request, "sandboxes/sandboxes.html", context)


def _row(actor: Actor, sandbox: Sandbox, costing: Costing) -> dict[str, Any]:
    return {
        "sandbox": sandbox,
        "place": place_of(sandbox.run),
        "cost": written(costing.of(sandbox)),
        **_acts(actor, sandbox),
    }


def _acts(actor: Actor, sandbox: Sandbox) -> dict[str, bool]:
    """Return what this person may do about a sandbox as it stands."""
    may, spec = actor.may(Action.RUN_END), spec_or_none(sandbox.provider)
    sleeps = may and spec is not None and Ability.PAUSE in spec.can
    return {
        "is_endable": may and sandbox.state in ENDABLE,
        "is_pausable": sleeps and sandbox.state == SandboxState.READY,
        "is_wakeable": sleeps
        and sandbox.state == SandboxState.ASLEEP
        and sandbox.wake_wanted_at is None,
    }


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
        "command_count": executions.count(),
        "cost": written(Costing(request.actor.team, now()).of(sandbox)),
        "running": running_in(executions),
        **_acts(request.actor, sandbox),
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


@require_POST
@door(Action.RUN_END)
def pause_view(request: Request, ref: str) -> HttpResponse:
    """Pause a sandbox and go to it."""
    sandbox = sandboxes_visible(request.actor).by_ref(ref)
    try:
        if sandbox_pause(actor=request.actor, sandbox=sandbox):
            messages.success(request, "The sandbox is being paused. The next command wakes it.")
        else:
            messages.warning(request, "It cannot be paused as it stands; look at its state.")
    except (Conflict, SandboxUnsupported) as error:
        messages.warning(request, f"{error.detail}.")
    return HttpResponseRedirect(reverse("sandbox", args=[sandbox.ref]))


@require_POST
@door(Action.RUN_END)
def wake_view(request: Request, ref: str) -> HttpResponse:
    """Wake a paused sandbox and go to it."""
    sandbox = sandboxes_visible(request.actor).by_ref(ref)
    if sandbox_wake(actor=request.actor, sandbox=sandbox):
        messages.success(request, "The sandbox is being woken.")
    else:
        messages.warning(request, "It is not asleep.")
    return HttpResponseRedirect(reverse("sandbox", args=[sandbox.ref]))
