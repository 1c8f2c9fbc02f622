"""Room for sandboxes: an environment may have so many at once, and the rest wait their turn.

The rows are the queue. Whatever makes room rings those who are next; the reconciler does, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.models import Environment, Sandbox, SandboxState
from sandboxes.models.sandbox import HOLDING
from sandboxes.turns import in_turn

# More than any provider gives one account, and few enough to be counted.
MOST_SANDBOXES = 10_000


@contextmanager
def capacity_held(environment: Environment) -> Iterator[Environment]:
    """Begin a transaction with the lock on an environment, and yield it as it is now."""
    with transaction.atomic():
        rows = Environment.objects.filter(pk=environment.pk)
        # SQLite has no row locks: its transactions begin with the only lock there is.
        if transaction.get_connection().features.has_select_for_update:
            rows = rows.select_for_update(of=("self",), no_key=True)
        yield rows.get()


def capacity_taken(environment: Environment) -> int:
    """Return how many sandboxes an environment has now, those that are kept ready among them."""
    of_runs = Sandbox.objects.filter(run__environment=environment, state__in=HOLDING).count()
    return of_runs + environment.warm.filter(state__in=HOLDING).count()


def capacity_spare(environment: Environment) -> int | None:
    """Return how many more sandboxes there is room for; None for as many as are wanted."""
    if environment.max_sandboxes is None:
        return None
    return max(0, environment.max_sandboxes - capacity_taken(environment))


def capacity_line(environment: Environment) -> list[uuid.UUID]:
    """Return the sandboxes that wait for room in an environment, in the order of their turns."""
    of_it = Sandbox.objects.filter(run__environment=environment)
    waiting = of_it.filter(state=SandboxState.INTENDED).exclude(not_before__gt=now())
    rows = list(waiting.order_by("id").values_list("run__agent", "id"))
    agents = {agent for agent, _ in rows}
    served = of_it.filter(run__agent__in=agents, admitted_at__isnull=False).order_by()
    latest = served.values("run__agent").annotate(at=Max("admitted_at"))
    return in_turn(rows, dict(latest.values_list("run__agent", "at")))


def capacity_next(environment: Environment) -> list[uuid.UUID]:
    """Return the sandboxes there is room for now."""
    return capacity_line(environment)[: capacity_spare(environment)]


def capacity_has_room(sandbox: Sandbox) -> bool:
    """Say whether it may be a sandbox's turn; only `capacity_claim` makes sure.

    One that is kept ready has its room already, and brings it along.
    """
    environment = sandbox.run.environment
    spare = capacity_spare(environment)
    if spare is None:
        return True
    ready = environment.warm.filter(state="ready").count()
    return sandbox.pk in capacity_line(environment)[: spare + ready]


def capacity_claim(*, sandbox: Sandbox, lease_until: datetime) -> bool:
    """Let a sandbox be made if there is room and it is its turn; only one worker gets to."""
    moment = now()
    changes: dict[str, Any] = {"lease_until": lease_until, "admitted_at": moment}
    if sandbox.not_before is None:
        # Its patience with the provider begins now: so far it has waited for others.
        changes["wanted_at"] = moment
    if sandbox.run.environment.max_sandboxes is None:
        return transition(sandbox, SandboxState.PROVISIONING, **changes)
    with capacity_held(sandbox.run.environment) as environment:
        if sandbox.pk not in capacity_next(environment):
            return False
        return transition(sandbox, SandboxState.PROVISIONING, **changes)


def capacity_fill(*, environment: Environment) -> None:
    """Ring those there is room for, and tell the others that they have moved up."""
    ready = environment.warm.filter(state="ready").count()
    spare = capacity_spare(environment)
    for key in capacity_line(environment)[: None if spare is None else spare + ready]:
        enqueue("sandboxes.sandbox_provision", sandbox=Sandbox(pk=key).ref)
    for run in Sandbox.objects.filter(pk__in=capacity_line(environment)).values_list(
        "run", flat=True
    ):
        publish("run", run)


def capacity_freed(*, environment: Environment) -> None:
    """Have those rung who wait for the room that has just been made."""
    if environment.max_sandboxes is not None:
        enqueue("sandboxes.capacity_fill", environment=environment.ref)


def capacity_words(sandbox: Sandbox) -> str:
    """Say that a sandbox waits for room and where in the line; empty when it does not."""
    environment = sandbox.run.environment
    if environment.max_sandboxes is None or capacity_has_room(sandbox):
        return ""
    line = capacity_line(environment)
    before = line.index(sandbox.pk) if sandbox.pk in line else len(line)
    most = environment.max_sandboxes
    others = f"{before} before it" if before else "it is next"
    return (
        f"The environment {environment.name} has no room: it may have {most} "
        f"sandbox{'' if most == 1 else 'es'} at once. This run waits in line, {others}."
    )


def capacity_set(*, actor: Actor, environment: Environment, max_sandboxes: int | None) -> None:
    """Say how many sandboxes an environment may have at once; None for as many as are wanted.

    Those there are go on. Raises InvalidInput.
    """
    actor.require(Action.CONFIGURE)
    if max_sandboxes is not None and not 1 <= max_sandboxes <= MOST_SANDBOXES:
        words = f"must be 1 to {MOST_SANDBOXES}, or nothing for no limit; turn it off to have none"
        raise InvalidInput(problems=[Problem(path="max_sandboxes", message=words)])
    with capacity_held(environment) as kept:
        kept.max_sandboxes = environment.max_sandboxes = max_sandboxes
        kept.save(update_fields=["max_sandboxes"])
        audit_write(
            actor=actor,
            act="environment.capacity",
            subject=environment,
            max_sandboxes=max_sandboxes,
        )
        enqueue("sandboxes.capacity_fill", environment=environment.ref)
