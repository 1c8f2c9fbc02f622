"""Asking for a command, and everything that happens to it before a worker takes it."""

from __future__ import annotations

import posixpath
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from approvals.models import Decision, Request, RequestState
from approvals.policy.decision import AuthorityRequest, Target
from approvals.services.decisions import authority_decide
from approvals.services.requests import grant_use, request_open, request_withdraw
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, SandboxUnsupported
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.candidate import execution_candidate, execution_digest
from sandboxes.models import Execution, ExecutionState, Run, RunState
from sandboxes.models.execution import SETTLED
from sandboxes.providers.base import Command
from sandboxes.providers.registry import provider_spec
from sandboxes.services.runs import asking_for, refusal_words, run_settle
from trajectories.services import trajectory_held

DEFAULT_TIME_LIMIT_SECONDS = 60


def execution_ask(
    *, actor: Actor, run: Run, command: Command, waiter_until: datetime | None = None
) -> Execution:
    """Ask to run a command in a run of the acting agent; it comes back denied, waiting or queued.

    `waiter_until` says how long the asking client will listen for the result.
    Raises Conflict when the run is over, SandboxUnsupported where nothing can run.
    """
    actor.require(Action.RUN)
    if run.is_over:
        raise Conflict(run.reason or f"The run is {run.state}; open a new one")
    if not provider_spec(run.provider).supports_execution:
        raise SandboxUnsupported(f"The environment {run.environment} runs no commands")
    with trajectory_held(run.trajectory_id):
        execution = _unsaved(run, command)
        execution.waiter_until = waiter_until
        execution.save(force_insert=True)
        decision = _decide(execution)
        Run.objects.filter(pk=run.pk).update(last_seen_at=now())
        _act(execution, decision)
    return execution


def _unsaved(run: Run, command: Command) -> Execution:
    home = run.manifest["working_dir"]
    execution = Execution(
        team_id=run.team_id,
        run=run,
        argv=list(command.argv),
        cwd=posixpath.normpath(posixpath.join(home, command.cwd or home)),
        env=dict(command.env),
        stdin=command.stdin,
        time_limit_seconds=ceil(command.time_limit_seconds or DEFAULT_TIME_LIMIT_SECONDS),
    )
    execution.digest = execution_digest(execution)
    return execution


def _decide(execution: Execution) -> Decision:
    run = execution.run
    request = AuthorityRequest(
        capability="process.exec",
        actor=f"agent {run.agent.name}",
        target=Target(resource=execution.argv[0]),
        provider=run.provider,
        execution_surface=provider_spec(run.provider).execution_surface,
        risk_level="high",
        command=tuple(execution.argv),
        metadata={
            "cwd": execution.cwd,
            "env_names": sorted(execution.env),
            "stdin": execution.stdin is not None,
            "time_limit_seconds": execution.time_limit_seconds,
        },
    )
    asking = asking_for(run, execution.id, execution.env)
    return authority_decide(asking=asking, requests=[request])[0]


def _act(execution: Execution, decision: Decision) -> None:
    run = execution.run
    asking = asking_for(run, execution.id, execution.env)
    if decision.effect == "deny":
        transition(
            execution,
            ExecutionState.DENIED,
            decision=decision,
            reason=decision.reason,
            ended_at=now(),
        )
    elif decision.effect == "allow" or grant_use(asking=asking, digest=execution.digest):
        execution_queue(execution=execution, decision=decision)
    else:
        candidate = execution_candidate(execution, decision)
        request = request_open(asking=asking, candidate=candidate, decisions=[decision])
        transition(execution, ExecutionState.WAITING, decision=decision, request=request)
        run_settle(run=run)
    publish("execution", execution.id)


def execution_queue(*, execution: Execution, decision: Decision | None = None) -> bool:
    """Hand a command over to the workers; False when it is no longer waiting for that."""
    changes: dict[str, Any] = {"decision": decision} if decision else {}
    with trajectory_held(execution.run.trajectory_id):
        if not transition(execution, ExecutionState.QUEUED, queued_at=now(), **changes):
            return False
        enqueue("sandboxes.execution_run", execution=execution.ref)
        publish("execution", execution.id)
    return True


def execution_decided(*, request: Request) -> None:
    """Act on the end of the request a command waited for."""
    execution = Execution.objects.select_related("run").get(pk=request.subject_id)
    if request.state == RequestState.APPROVED:
        execution_queue(execution=execution)
    else:
        ends = {
            RequestState.REJECTED: ExecutionState.REJECTED,
            RequestState.EXPIRED: ExecutionState.EXPIRED,
            RequestState.SUPERSEDED: ExecutionState.STALE,
        }
        state = ends.get(RequestState(request.state), ExecutionState.CANCELLED)
        transition(
            execution,
            state,
            source=["waiting"],
            reason=refusal_words(request),
            ended_at=now(),
        )
        publish("execution", execution.id)
    run_settle(run=execution.run)


def execution_cancel(*, actor: Actor, execution: Execution) -> bool:
    """Stop a command wherever it stands; False when it has ended already."""
    if not (actor.agent and actor.agent.pk == execution.run.agent_id):
        actor.require(Action.RUN_END)
    reason = f"Cancelled by {actor.label}"
    with trajectory_held(execution.run.trajectory_id):
        if execution.request and execution.request.state == RequestState.OPEN:
            request_withdraw(request=execution.request, reason=reason)
        waiting = transition(
            execution,
            ExecutionState.CANCELLED,
            source=["waiting", "queued"],
            reason=reason,
            ended_at=now(),
        )
        asked = Execution.objects.filter(
            pk=execution.pk, state__in=["starting", "running"], cancel_requested_at__isnull=True
        ).update(cancel_requested_at=now())
        publish("execution", execution.id)
    return bool(waiting or asked)


def execution_join(*, run: Run, command: Command, waiter_until: datetime) -> Execution | None:
    """Let a client that sends the same command again go on waiting for the first one.

    Only for a command whose client gave up or went away before it got the
    result; anything else is a new command. None when there is none to join.
    """
    digest = _unsaved(run, command).digest
    same = run.executions.filter(digest=digest, delivered_at__isnull=True)
    for execution in same.order_by("id"):
        # Of two clients that ask again at once, one joins; the other asks anew.
        joined = Execution.objects.filter(
            pk=execution.pk, waiter_until__lt=now(), delivered_at__isnull=True
        ).update(waiter_until=waiter_until)
        if joined:
            return execution
    return None


def execution_wait_extend(*, execution: Execution, until: datetime) -> None:
    """Note that a client still listens for the result."""
    Execution.objects.filter(pk=execution.pk).update(waiter_until=until)


def execution_wait_end(*, execution: Execution) -> None:
    """Note that the client has stopped listening; the same command may now join."""
    past = now() - timedelta(seconds=1)
    Execution.objects.filter(pk=execution.pk).update(waiter_until=past)


def execution_deliver(*, execution: Execution) -> bool:
    """Note that the result has been handed to the agent; False when it was before."""
    return bool(
        Execution.objects.filter(
            pk=execution.pk, delivered_at__isnull=True, state__in=SETTLED
        ).update(delivered_at=now())
    )


def is_held(execution: Execution) -> bool:
    """Whether a queued command must still wait for its run to be cleared."""
    return execution.run.state == RunState.WAITING and execution.run.cleared_at is None
