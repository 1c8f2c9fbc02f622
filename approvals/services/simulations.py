"""Trying a draft or a version of a policy on recorded decisions, before it goes live.

The work goes in slices, so that pages stay quick, progress is seen and a cancel is heard. The row
is the queue: a worker that is lost loses its lease, and another begins anew.
"""

from __future__ import annotations

import logging
import time
import uuid
from datetime import timedelta
from typing import Any

from django.db import transaction

from approvals.findings import findings
from approvals.models import Policy, PolicyVersion, Simulation, SimulationState
from approvals.over import Over, decisions_over, recorded
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.simulate import Replay, Tally
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import TooMany
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
# One that is younger has just been rung.
GRACE = timedelta(seconds=5)
MAX_AT_ONCE = 3
# Between two slices other threads of the process get their turn.
BREATH_SECONDS = 0.005


def simulation_start(
    *,
    actor: Actor,
    policy: Policy,
    source: str = "",
    version: PolicyVersion | None = None,
    over: Over,
) -> Simulation:
    """Begin to replay a draft text, or a version of the policy, over recorded decisions.

    Raises InvalidInput for a bad document, TooMany while the team has several under way.
    """
    actor.require(Action.CONFIGURE)
    text = version.source if version else source
    compile_policy(parse_document(text))
    going = Simulation.objects.filter(team=actor.team, state__in=["queued", "running"])
    if going.count() >= MAX_AT_ONCE:
        raise TooMany(f"{MAX_AT_ONCE} simulations are under way; wait for one, or cancel it")
    with transaction.atomic():
        simulation = Simulation.objects.create(
            team=actor.team,
            policy=policy,
            version=version,
            created_by=actor.user,
            source=text,
            over=over.to_dict(),
            total=decisions_over(policy, over.to_dict()).count(),
        )
        audit_write(actor=actor, act="policy.simulate", subject=policy, simulation=simulation.ref)
        enqueue("approvals.simulation_run", simulation=simulation.ref)
    return simulation


def simulation_cancel(*, actor: Actor, simulation: Simulation) -> bool:
    """Stop a simulation; False when it was over already."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        stopped = transition(simulation, SimulationState.CANCELLED, ended_at=now())
        if stopped:
            audit_write(actor=actor, act="policy.simulate_cancel", subject=simulation)
            publish("simulation", simulation.id)
    return stopped


def simulation_run(*, simulation: Simulation) -> None:
    """Replay a queued simulation to its end; does nothing when another worker has it."""
    claim = uuid.uuid4()
    lease = now() + LEASE
    if not transition(simulation, SimulationState.RUNNING, claim=claim, lease_until=lease, done=0):
        return
    publish("simulation", simulation.id)
    try:
        tally = _replayed(simulation)
        if tally is None:
            return
        result = findings(tally)
    except Exception as error:
        logger.exception("%s cannot be replayed", simulation.ref)
        _end(simulation, SimulationState.FAILED, reason=f"It broke off: {type(error).__name__}")
        return
    _end(simulation, SimulationState.FINISHED, result=result, done=tally.seen)


def _replayed(simulation: Simulation) -> Tally | None:
    """Return what was found; None when it was cancelled or taken over meanwhile."""
    replay = Replay(compile_policy(parse_document(simulation.source)))
    tally = Tally()
    held = Simulation.objects.filter(
        pk=simulation.pk, state=SimulationState.RUNNING, claim=simulation.claim
    )
    for chunk in recorded(decisions_over(simulation.policy, simulation.over)):
        tally.add(replay, chunk)
        if not held.update(done=tally.seen, lease_until=now() + LEASE):
            return None
        publish("simulation", simulation.id)
        time.sleep(BREATH_SECONDS)
    return tally


def _end(simulation: Simulation, state: SimulationState, **changes: Any) -> None:
    where = {"claim": simulation.claim}
    with transaction.atomic():
        transition(simulation, state, where=where, ended_at=now(), **changes)
        publish("simulation", simulation.id)


def simulations_ring() -> None:
    """Give back what lost its worker, and ring what is still queued."""
    lost = Simulation.objects.filter(state=SimulationState.RUNNING, lease_until__lt=now())
    for simulation in lost:
        transition(simulation, SimulationState.QUEUED, where={"claim": simulation.claim})
    queued = Simulation.objects.filter(state=SimulationState.QUEUED, created_at__lt=now() - GRACE)
    for simulation in queued.order_by("id")[:100]:
        enqueue("approvals.simulation_run", simulation=simulation.ref)
