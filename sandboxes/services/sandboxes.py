"""Making and ending sandboxes. The row comes first, so that none is ever lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.canonical import canonical_json
from omniweb.core.clock import now
from omniweb.core.database import insist
from omniweb.core.errors import OmniWebError, ProviderError, ProviderUnavailable
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.live import live_sandbox, owner_of, provider_of
from sandboxes.manifest import Manifest
from sandboxes.models import ExecutionState, Run, Sandbox, SandboxState, WarmSandbox
from sandboxes.models.sandbox import GONE
from sandboxes.providers.base import Handle
from sandboxes.secrecy import redactor_for
from sandboxes.services.capacity import capacity_claim, capacity_freed, capacity_has_room
from sandboxes.services.circuits import (
    circuit_of,
    circuit_try,
    circuit_watched,
    circuit_words,
    is_out_of_patience,
)
from sandboxes.services.secrets import secrets_give
from sandboxes.services.warm import warm_find, warm_taken
from trajectories.services import step_append, trajectory_held
from trajectories.steps import StepKind

# Pulling an image may take minutes; a lost worker's attempt is given up after this long.
PROVISION_LEASE = timedelta(minutes=10)


def sandbox_current(run: Run) -> Sandbox | None:
    """Return the one sandbox of a run that is not gone."""
    return run.sandboxes.exclude(state__in=GONE).first()


def sandbox_intend(*, run: Run) -> None:
    """Want a sandbox for a run; does nothing when it has one that is not gone, or is over."""
    try:
        with trajectory_held(run.trajectory_id):
            # The caller may know the run as it was before it ended.
            if Run.objects.get(pk=run.pk).is_over:
                return
            sandbox = Sandbox.objects.create(team_id=run.team_id, run=run, provider=run.provider)
    except IntegrityError:
        return
    enqueue("sandboxes.sandbox_provision", sandbox=sandbox.ref)
    publish("sandboxes", run.team_id)


def sandbox_provision(*, sandbox: Sandbox) -> None:
    """Have the provider create a sandbox; only one worker ever gets to try."""
    if sandbox.run.is_over and sandbox_terminate(sandbox=sandbox):
        return
    if sandbox.not_before and sandbox.not_before > now():
        return
    if not capacity_has_room(sandbox):
        return
    circuit = circuit_of(sandbox.run)
    if circuit and not circuit_try(circuit=circuit):
        if is_out_of_patience(sandbox.wanted_at):
            sandbox_failed(sandbox=sandbox, reason=circuit_words(circuit, now()))
        return
    warm = warm_find(sandbox.run)
    if warm is not None and insist(lambda: _take(sandbox, warm)):
        return
    if capacity_claim(sandbox=sandbox, lease_until=now() + PROVISION_LEASE):
        _provision(sandbox)


def _take(sandbox: Sandbox, warm: WarmSandbox) -> bool:
    """Make one that was kept ready the sandbox of a run; all of it happens, or nothing does."""
    with trajectory_held(sandbox.run.trajectory_id):
        if not warm_taken(warm=warm, sandbox=sandbox):
            return False
        if not capacity_claim(sandbox=sandbox, lease_until=now() + PROVISION_LEASE):
            transaction.set_rollback(True)
            return False
        _made(sandbox, warm.handle, warm.isolation)
    return True


def _provision(sandbox: Sandbox) -> None:
    try:
        provider = provider_of(sandbox.run)
        manifest, secrets = Manifest.parse(sandbox.run.manifest), secrets_give(run=sandbox.run)
        with circuit_watched(run=sandbox.run):
            live = provider.create(manifest, owner=owner_of(sandbox), secrets=secrets)
    except ProviderUnavailable as error:
        unavailable = error.detail
        insist(lambda: sandbox_postpone(sandbox=sandbox, reason=unavailable))
        return
    except OmniWebError as error:
        reason, seen = error.detail, error.extra.get("evidence") or {}
        insist(lambda: sandbox_failed(sandbox=sandbox, reason=reason, evidence=seen))
        return
    except Exception as error:
        sandbox_failed(sandbox=sandbox, reason=f"{type(error).__name__} while it was made")
        raise
    evidence = live.isolation.to_dict() if live.isolation else {}
    insist(lambda: _made(sandbox, live.handle, evidence))


def _made(sandbox: Sandbox, handle: Handle, evidence: Mapping[str, Any]) -> None:
    """Record what the provider has created; its run may have ended meanwhile."""
    with trajectory_held(sandbox.run.trajectory_id):
        changes: dict[str, Any] = {
            "handle": dict(handle),
            "isolation": dict(evidence),
            "ready_at": now(),
        }
        if transition(sandbox, SandboxState.READY, source=["provisioning"], **changes):
            sandbox_tell(sandbox, "", evidence)
            sandbox_ring(sandbox.run)
        if Run.objects.get(pk=sandbox.run_id).is_over:
            enqueue("sandboxes.run_finish", run=sandbox.run.ref)


def sandbox_ring(run: Run) -> None:
    """Ring workers for the commands that have waited for a run's sandbox."""
    for execution in run.executions.filter(state=ExecutionState.QUEUED).order_by("id"):
        enqueue("sandboxes.execution_run", execution=execution.ref)


def sandbox_failed(
    *, sandbox: Sandbox, reason: str, evidence: Mapping[str, Any] | None = None
) -> None:
    """Give up on a sandbox that could not be made; commands that waited for it fail with it.

    `evidence` is what was seen of its isolation, where that is why.
    """
    reason = redactor_for(sandbox.run).text(reason)
    seen = dict(evidence or {})
    with trajectory_held(sandbox.run.trajectory_id):
        changes: dict[str, Any] = {"reason": reason, "isolation": seen, "ended_at": now()}
        if not transition(sandbox, SandboxState.FAILED, **changes):
            return
        sandbox_tell(sandbox, reason, seen)
        for execution in sandbox.run.executions.filter(state=ExecutionState.QUEUED):
            transition(execution, ExecutionState.FAILED, reason=reason, ended_at=now())
            publish("execution", execution.id)
        publish("run", sandbox.run_id)
    if sandbox.run.is_over:
        enqueue("sandboxes.run_finish", run=sandbox.run.ref)


def sandbox_postpone(*, sandbox: Sandbox, reason: str) -> None:
    """Give up on a sandbox whose provider does not answer, and want another when it may again.

    A new row, because nobody knows what the provider has made of the old one: by that one's name
    it is found and ended. Commands go on waiting, for as long as anything may.
    """
    run = sandbox.run
    circuit = circuit_of(run)
    if run.is_over or circuit is None or is_out_of_patience(sandbox.wanted_at):
        sandbox_failed(sandbox=sandbox, reason=reason)
        return
    told = redactor_for(run).text(reason)
    with trajectory_held(run.trajectory_id):
        if not transition(sandbox, SandboxState.FAILED, reason=told, ended_at=now()):
            return
        sandbox_tell(sandbox, told)
        Sandbox.objects.create(
            team_id=run.team_id,
            run=run,
            provider=run.provider,
            wanted_at=sandbox.wanted_at,
            not_before=circuit.retry_at,
        )


def sandbox_lost(*, sandbox: Sandbox, reason: str) -> None:
    """Note that the provider no longer has a sandbox; the next command gets a new one."""
    reason = redactor_for(sandbox.run).text(reason)
    with trajectory_held(sandbox.run.trajectory_id):
        if transition(sandbox, SandboxState.LOST, reason=reason, ended_at=now()):
            sandbox_tell(sandbox, reason)
            _replace(sandbox)


def sandbox_doubt(*, sandbox: Sandbox, reason: str) -> None:
    """End a sandbox where a command may still run with nobody to record it."""
    with trajectory_held(sandbox.run.trajectory_id):
        if transition(sandbox, SandboxState.TERMINATING, source=["ready"], reason=reason):
            sandbox_tell(sandbox, reason)
            enqueue("sandboxes.sandbox_terminate", sandbox=sandbox.ref)


def _replace(sandbox: Sandbox) -> None:
    """Want a new sandbox for the commands that still wait for this one."""
    if sandbox.run.executions.filter(state=ExecutionState.QUEUED).exists():
        sandbox_intend(run=sandbox.run)


def sandbox_terminate(*, sandbox: Sandbox, reason: str = "") -> bool:
    """End a sandbox; return whether it is gone. A provider that does not answer is asked again."""
    if transition(sandbox, SandboxState.TERMINATED, source=["intended"], ended_at=now()):
        return True
    if sandbox.state == SandboxState.PROVISIONING:
        # Its maker sees that the run is over as soon as it is ready.
        return False
    if sandbox.state in GONE:
        return True
    if sandbox.state != SandboxState.TERMINATING and not transition(
        sandbox, SandboxState.TERMINATING, reason=reason
    ):
        sandbox.refresh_from_db()
        return sandbox.state in GONE
    try:
        live_sandbox(sandbox).terminate()
    except ProviderError as error:
        reason = redactor_for(sandbox.run).text(error.detail)
        Sandbox.objects.filter(pk=sandbox.pk).update(reason=reason)
        return False
    with trajectory_held(sandbox.run.trajectory_id):
        if transition(sandbox, SandboxState.TERMINATED, ended_at=now()):
            sandbox_tell(sandbox, reason)
            _replace(sandbox)
    return True


def sandbox_end(*, actor: Actor, sandbox: Sandbox) -> bool:
    """Have a sandbox ended that a person no longer wants; its run goes on.

    What runs in it is stopped, and the run's next command gets a new one. False when it is
    being made, being ended or gone already.
    """
    actor.require(Action.RUN_END)
    reason = f"Ended by {actor.label}"
    with trajectory_held(sandbox.run.trajectory_id):
        if not transition(
            sandbox, SandboxState.TERMINATING, source=["ready", "asleep"], reason=reason
        ):
            return False
        running = sandbox.executions.filter(state__in=["starting", "running"])
        running.filter(cancel_requested_at__isnull=True).update(cancel_requested_at=now())
        audit_write(actor=actor, act="sandbox.end", subject=sandbox, run=sandbox.run.ref)
        sandbox_tell(sandbox, reason)
        # A worker calls the provider; a person does not wait for that.
        enqueue("sandboxes.sandbox_terminate", sandbox=sandbox.ref)
    return True


def sandbox_tell(sandbox: Sandbox, reason: str, evidence: Mapping[str, Any] | None = None) -> None:
    """Write the step that says what has become of a sandbox, and hint at it."""
    if sandbox.state in GONE:
        capacity_freed(environment=sandbox.run.environment)
    step_append(
        trajectory=sandbox.run.trajectory,
        kind=StepKind.SANDBOX_STATE,
        actor="system",
        payload={
            "sandbox": sandbox.ref,
            "provider": sandbox.provider,
            "handle": canonical_json(sandbox.handle).decode() if sandbox.handle else "",
            "state": sandbox.state,
            "reason": reason,
            "evidence": dict(evidence or {}),
        },
    )
    publish("run", sandbox.run_id)
    publish("sandboxes", sandbox.team_id)
