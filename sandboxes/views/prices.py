"""What sandboxes cost: a table that an operator keeps, on the page of the providers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.errors import InvalidInput, Problem
from sandboxes.selectors import environments_visible, prices_visible
from sandboxes.services.prices import price_remove, price_set

# What each problem is called at its field.
_CALLED = {"per_hour": "Per hour", "paused_per_hour": "Per hour paused", "starts_at": "From"}


def prices_shown(actor: Actor) -> dict[str, Any]:
    """Return what the section of prices needs."""
    return {"prices": prices_visible(actor), "places": environments_visible(actor)}


@require_POST
@door(Action.CONFIGURE)
def set_view(request: Request) -> HttpResponse:
    """Add a price and go back to the table."""
    typed = {name: value.strip() for name, value in request.POST.items() if isinstance(value, str)}
    ref, provider = typed.get("environment", ""), typed.get("provider", "")
    place = environments_visible(request.actor).by_ref(ref) if ref else None
    try:
        price_set(
            actor=request.actor,
            provider=place.provider if place else provider,
            environment=place,
            per_hour=_amount(typed.get("per_hour", "")),
            paused_per_hour=_amount(typed.get("paused_per_hour", "") or "0"),
            currency=typed.get("currency", "").upper(),
            starts_at=_moment(typed.get("starts_at", "")),
        )
    except InvalidInput as error:
        for problem in error.problems:
            name = _CALLED.get(problem.path, problem.path.capitalize())
            messages.error(request, f"{name}: {problem.message}")
    else:
        messages.success(request, "Saved. Costs are worked out with it from its beginning on.")
    return HttpResponseRedirect(reverse("providers") + "#prices")


def _amount(typed: str) -> Decimal:
    """Return the number that was typed; what is none is told as one that is out of range."""
    try:
        return Decimal(typed)
    except InvalidOperation:
        return Decimal("NaN")


def _moment(typed: str) -> datetime | None:
    """Return the moment that was typed, in UTC where it says no zone; None for now.

    Raises InvalidInput.
    """
    if not typed:
        return None
    try:
        found = datetime.fromisoformat(typed)
    except ValueError:
        words = "must be a date and a time such as 2026-12-01T00:00"
        raise InvalidInput(problems=[Problem(path="starts_at", message=words)]) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@require_POST
@door(Action.CONFIGURE)
def remove_view(request: Request, ref: str) -> HttpResponse:
    """Take back a price and go back to the table."""
    price_remove(actor=request.actor, price=prices_visible(request.actor).by_ref(ref))
    messages.success(request, "The price is taken back.")
    return HttpResponseRedirect(reverse("providers") + "#prices")
