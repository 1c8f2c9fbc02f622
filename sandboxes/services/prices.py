"""Setting what sandboxes cost, and what that comes to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.realtime import publish
from sandboxes.costs import Cost, Rate, added, cost_of
from sandboxes.models import Environment, Price, Run, Sandbox
from sandboxes.providers.registry import provider_spec

DEAREST = Decimal(100_000)
PLACES = 6


def price_set(
    *,
    actor: Actor,
    provider: str,
    environment: Environment | None = None,
    per_hour: Decimal,
    paused_per_hour: Decimal = Decimal(0),
    currency: str,
    starts_at: datetime | None = None,
) -> Price:
    """Say what an hour of one sandbox costs from a time on, by default from now; raises InvalidInput."""
    actor.require(Action.CONFIGURE)
    problems = [
        Problem(path=path, message=message)
        for path, message in {
            "provider": _provider_problem(provider, environment),
            "per_hour": _amount_problem(per_hour),
            "paused_per_hour": _amount_problem(paused_per_hour),
            "currency": ""
            if re.fullmatch(r"[A-Z]{3}", currency)
            else "must be three capital letters such as USD or EUR",
            "starts_at": ""
            if starts_at is None or starts_at.tzinfo
            else "must say its time zone, such as 2026-12-01T00:00Z",
        }.items()
        if message
    ]
    if problems:
        raise InvalidInput(problems=problems)
    with transaction.atomic():
        price = Price.objects.create(
            team=actor.team,
            provider=provider,
            environment=environment,
            per_hour=per_hour,
            paused_per_hour=paused_per_hour,
            currency=currency,
            starts_at=starts_at or now(),
        )
        audit_write(
            actor=actor,
            act="price.set",
            subject=price,
            provider=provider,
            environment=environment.name if environment else "",
            per_hour=str(per_hour),
            currency=currency,
        )
        publish("sandboxes", actor.team_id)
    return price


def _provider_problem(provider: str, environment: Environment | None) -> str:
    try:
        provider_spec(provider)
    except InvalidInput as error:
        return error.detail
    if environment is not None and environment.provider != provider:
        return f"{environment.name} is an environment of {environment.provider}"
    return ""


def _amount_problem(amount: Decimal) -> str:
    if not amount.is_finite() or not 0 <= amount <= DEAREST:
        return f"must be a number from 0 to {DEAREST}"
    exponent = amount.normalize().as_tuple().exponent
    fine = isinstance(exponent, int) and exponent >= -PLACES
    return "" if fine else f"must not have more than {PLACES} places after the point"


def price_remove(*, actor: Actor, price: Price) -> None:
    """Take back a price that was wrong; what it made of costs is no longer shown."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        audit_write(
            actor=actor,
            act="price.remove",
            subject=price,
            provider=price.provider,
            per_hour=str(price.per_hour),
            currency=price.currency,
        )
        price.delete()
        publish("sandboxes", actor.team_id)


class Costing:
    """What the sandboxes of a team have cost up to a moment; reads its prices once."""

    def __init__(self, team: Team, at: datetime) -> None:
        self._at = at
        # Of two prices from the same moment on, the one that was set last holds.
        self._prices = list(Price.objects.filter(team=team).order_by("-created_at"))

    def of(self, sandbox: Sandbox) -> Cost:
        """Return what one sandbox has cost so far, from when it was ready to its end."""
        if sandbox.ready_at is None:
            return {}
        end = sandbox.ended_at or self._at
        pauses = [(datetime.fromisoformat(a), datetime.fromisoformat(b)) for a, b in sandbox.pauses]
        if sandbox.paused_at:
            pauses.append((sandbox.paused_at, end))
        return cost_of((sandbox.ready_at, end), pauses, self._rates(sandbox))

    def of_all(self, sandboxes: Iterable[Sandbox]) -> Cost:
        """Return what several have cost together."""
        return added(map(self.of, sandboxes))

    def _rates(self, sandbox: Sandbox) -> list[Rate]:
        place = sandbox.run.environment_id
        return [
            Rate(
                starts_at=price.starts_at,
                per_hour=price.per_hour,
                paused_per_hour=price.paused_per_hour,
                currency=price.currency,
                is_own=price.environment_id is not None,
            )
            for price in self._prices
            if price.provider == sandbox.provider and price.environment_id in (None, place)
        ]


def run_cost(run: Run) -> Cost:
    """Return what the sandboxes of a run have cost so far."""
    return Costing(run.team, now()).of_all(run.sandboxes.select_related("run"))
