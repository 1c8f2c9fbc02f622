"""Providers that do not answer, as pages show them, and having one tried at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.clock import now
from sandboxes.selectors import circuits_broken, circuits_visible
from sandboxes.services.circuits import circuit_close
from sandboxes.views.words import spec_or_none


@dataclass(frozen=True, kw_only=True)
class ShownCircuit:
    """A provider that does not answer; `left` is the time until it is tried, None when it may be."""

    ref: str
    label: str
    state: str
    failing_since: datetime | None
    failures: int
    reason: str
    left: timedelta | None


def circuits_shown(actor: Actor) -> dict[str, Any]:
    """Return what `sandboxes/circuits.html` needs."""
    moment = now()
    shown = []
    for circuit in circuits_broken(actor):
        spec = spec_or_none(circuit.provider)
        is_due = circuit.retry_at is None or circuit.retry_at <= moment
        shown.append(
            ShownCircuit(
                ref=circuit.ref,
                label=spec.label if spec else circuit.provider,
                state=circuit.state,
                failing_since=circuit.failing_since,
                failures=circuit.failures,
                reason=circuit.reason,
                left=None if is_due or not circuit.retry_at else circuit.retry_at - moment,
            )
        )
    return {"circuits": shown, "may_configure": actor.may(Action.CONFIGURE)}


@require_POST
@door(Action.CONFIGURE)
def close_view(request: Request, ref: str) -> HttpResponse:
    """Have a provider tried at once and go to the fleet."""
    if circuit_close(actor=request.actor, circuit=circuits_visible(request.actor).by_ref(ref)):
        messages.success(request, "What waits for it is tried now.")
    else:
        messages.success(request, "It has answered meanwhile.")
    return HttpResponseRedirect(reverse("sandboxes"))
