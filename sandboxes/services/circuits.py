"""Leaving a provider alone that does not answer, and finding out when it does again.

A circuit is a team's line to one account. Failures in a row make each pause longer; after
BROKEN_AFTER of them it is open: nobody calls until the pause is over, and then one does, to try.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import ceil

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.canonical import digest
from omniweb.core.clock import now
from omniweb.core.database import insist
from omniweb.core.errors import InvalidInput, OmniWebError, ProviderUnavailable
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.backoff import BROKEN_AFTER, pause_seconds
from sandboxes.models import Circuit, CircuitState, Run, Sandbox, SandboxState
from sandboxes.providers.registry import provider_spec
from sandboxes.secrecy import redactor_for

# A trial takes a few seconds, or a sandbox's making; one that takes longer is not waited for.
TRIAL_LEASE = timedelta(seconds=60)


def circuit_of(run: Run) -> Circuit | None:
    """Return the circuit of a run's account; None when it has never failed."""
    return Circuit.objects.filter(team_id=run.team_id, account=_account(run)).first()


def _account(run: Run) -> str:
    try:
        whom = provider_spec(run.provider).account(run.options)
    except InvalidInput:
        # It was there when the run was opened; opening it tells what is wrong.
        whom = dict(run.options)
    return digest({"provider": run.provider, "options": whom})


def circuit_try(*, circuit: Circuit | None) -> bool:
    """Say whether a provider may be called now; where it is broken, one caller gets to try it."""
    if circuit is None or not circuit.is_open:
        return True
    moment = now()
    # The one who tries has not come back: its worker may be lost.
    due = {"lease_until__lt" if circuit.state == CircuitState.TRYING else "retry_at__lte": moment}
    return transition(
        circuit,
        CircuitState.TRYING,
        source=[circuit.state],
        where=due,
        lease_until=moment + TRIAL_LEASE,
    )


def is_out_of_patience(since: datetime) -> bool:
    """Say whether something has waited for its provider for as long as it may."""
    return now() - since >= timedelta(seconds=settings.PROVIDER_PATIENCE_SECONDS)


def circuit_words(circuit: Circuit, at: datetime) -> str:
    """Say since when a provider has not answered, when it is tried next, and what it said last."""
    since = circuit.failing_since or circuit.created_at
    words = f"{provider_spec(circuit.provider).label} has not answered since {since:%H:%M} UTC"
    left = (circuit.retry_at - at).total_seconds() if circuit.retry_at else 0
    if circuit.state == CircuitState.TRYING:
        following = "it is being tried now"
    else:
        following = (
            f"next try in {ceil(left)} s" if left > 0 else "it is tried next by whoever waits"
        )
    return f"{words}; {following}. It said: {circuit.reason.rstrip('.')}."


@contextmanager
def circuit_watched(*, run: Run) -> Iterator[None]:
    """Note whether a run's provider answers what is called within."""
    try:
        yield
    except ProviderUnavailable as error:
        failure = error
        insist(lambda: circuit_failed(run=run, error=failure))
        raise
    except OmniWebError:
        insist(lambda: circuit_answered(run=run))
        raise
    insist(lambda: circuit_answered(run=run))


def circuit_failed(*, run: Run, error: ProviderUnavailable) -> Circuit:
    """Count a failure and set the next try; the circuit opens when there are enough in a row."""
    circuit = _kept(run)
    moment = now()
    with transaction.atomic():
        mine = Circuit.objects.filter(pk=circuit.pk)
        mine.filter(failures=0).update(failing_since=moment)
        mine.update(failures=F("failures") + 1)
        circuit.refresh_from_db()
        asked = error.extra.get("retry_after")
        pause = pause_seconds(circuit.failures, asked=asked, chance=random.random())  # noqa: S311
        circuit.retry_at = moment + timedelta(seconds=pause)
        circuit.reason = redactor_for(run).text(error.detail)
        mine.update(retry_at=circuit.retry_at, reason=circuit.reason)
        if circuit.failures >= BROKEN_AFTER:
            transition(circuit, CircuitState.OPEN, lease_until=None)
        publish("sandboxes", run.team_id)
        publish("run", run.pk)
    return circuit


def _kept(run: Run) -> Circuit:
    whose = {"team_id": run.team_id, "account": _account(run)}
    try:
        return Circuit.objects.get_or_create(**whose, defaults={"provider": run.provider})[0]
    except IntegrityError:
        return Circuit.objects.get(**whose)


def circuit_answered(*, run: Run) -> None:
    """Note that a run's provider has answered; what has waited for it goes on."""
    circuit = circuit_of(run)
    if circuit is not None and circuit.failures:
        _close(circuit)


def circuit_close(*, actor: Actor, circuit: Circuit) -> bool:
    """Have a provider tried again now, by whatever waits for it; False when nothing keeps it back."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        if not _close(circuit):
            return False
        waiting = Sandbox.objects.filter(team_id=circuit.team_id, provider=circuit.provider)
        waiting.filter(state=SandboxState.INTENDED).update(not_before=None)
        audit_write(actor=actor, act="circuit.close", subject=circuit, provider=circuit.provider)
    return True


def _close(circuit: Circuit) -> bool:
    with transaction.atomic():
        rows = Circuit.objects.filter(pk=circuit.pk, failures__gt=0)
        fresh = {"failures": 0, "failing_since": None, "retry_at": None, "lease_until": None}
        if not rows.update(state=CircuitState.CLOSED, **fresh):
            return False
        # The sweep rings whatever waits; it may run at any time.
        enqueue("sandboxes.reconcile")
        publish("sandboxes", circuit.team_id)
    return True
