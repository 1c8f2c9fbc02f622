"""The governed pipeline's last part: claim → check what was approved → run → record → settle.

A command starts at most once. The claim is a conditional UPDATE with a fencing
token; `running` is committed before the provider is called, so whatever kills
this process afterwards leaves `unknown`, never a second start.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from datetime import timedelta

from django.conf import settings

from approvals.models import Request, RequestState
from approvals.services.requests import request_spend
from omniweb.core.clock import now
from omniweb.core.database import AWAY, insist
from omniweb.core.errors import CommandLost, OmniWebError, ProviderUnavailable, SandboxLost
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.candidate import execution_digest
from sandboxes.capabilities import Ability
from sandboxes.live import live_sandbox
from sandboxes.models import Execution, ExecutionState, Run, Sandbox, SandboxState
from sandboxes.output import Output
from sandboxes.providers.base import Command, CommandResult
from sandboxes.providers.registry import provider_spec
from sandboxes.secrecy import redactor_for
from sandboxes.services.circuits import (
    circuit_answered,
    circuit_failed,
    circuit_of,
    circuit_try,
    circuit_watched,
    circuit_words,
    is_out_of_patience,
)
from sandboxes.services.sandboxes import (
    sandbox_current,
    sandbox_doubt,
    sandbox_intend,
    sandbox_lost,
)
from sandboxes.services.sleep import sandbox_wake_want
from trajectories.services import step_append, trajectory_held
from trajectories.steps import StepKind

logger = logging.getLogger(__name__)


def execution_run(*, execution: Execution) -> None:
    """Run a queued command if its turn has come; safe to call any number of times."""
    run = execution.run
    if execution.state != ExecutionState.QUEUED or run.cleared_at is None or run.is_over:
        return
    sandbox = sandbox_current(run)
    if sandbox is None:
        sandbox_intend(run=run)
        return
    if sandbox.state == SandboxState.ASLEEP:
        sandbox_wake_want(sandbox=sandbox)
    if sandbox.state != SandboxState.READY:
        return  # whoever makes it ready rings again
    if not _is_answering(execution, sandbox) or not _claim(execution, sandbox):
        return
    if failure := _perform(execution, sandbox):
        circuit_failed(run=run, error=failure)
    else:
        circuit_answered(run=run)


def _is_answering(execution: Execution, sandbox: Sandbox) -> bool:
    """Say whether the provider may be called; one that is broken is first asked for the sandbox.

    A command is too dear to try with: it runs at most once, whatever becomes of it. Where the
    provider tells no state there is nothing else to try with.
    """
    run = execution.run
    circuit = circuit_of(run)
    if circuit is None or not circuit.is_open:
        return True
    if circuit_try(circuit=circuit):
        if Ability.STATE not in provider_spec(run.provider).can:
            return True
        with suppress(OmniWebError), circuit_watched(run=run):
            live_sandbox(sandbox).is_running()
        circuit.refresh_from_db()
        if not circuit.is_open:
            return True
    if execution.queued_at and is_out_of_patience(execution.queued_at):
        execution_fail(execution=execution, reason=circuit_words(circuit, now()))
    return False


def execution_fail(*, execution: Execution, reason: str) -> None:
    """Give up on a queued command that its provider has kept waiting; nothing of it has run."""
    with trajectory_held(execution.run.trajectory_id):
        transition(
            execution, ExecutionState.FAILED, source=["queued"], reason=reason, ended_at=now()
        )
        publish("execution", execution.id)
        publish("run", execution.run_id)


def _claim(execution: Execution, sandbox: Sandbox) -> bool:
    """Take the command, and spend its approval for exactly what was approved."""
    with trajectory_held(execution.run.trajectory_id):
        # Somebody may have it paused or ended since it was looked at.
        if not Sandbox.objects.filter(pk=sandbox.pk, state=SandboxState.READY).exists():
            return False
        if not transition(
            execution,
            ExecutionState.STARTING,
            source=["queued"],
            claim=uuid.uuid4(),
            lease_until=now() + timedelta(seconds=settings.LEASE_SECONDS),
            sandbox=sandbox,
        ):
            return False
        if _is_still_approved(execution):
            return True
        reason = "What was approved is no longer what would run; ask again"
        transition(execution, ExecutionState.STALE, reason=reason, ended_at=now())
        publish("execution", execution.id)
        return False


def _is_still_approved(execution: Execution) -> bool:
    digest = execution_digest(execution)
    if digest != execution.digest:
        logger.error("the row of %s changed after it was asked", execution.ref)
        return False
    if execution.request_id is None:
        return True
    request = Request.objects.get(pk=execution.request_id)
    # Spent already: this command was claimed before by a worker that died before it started it.
    return request.state == RequestState.SPENT or request_spend(request=request, digest=digest)


def _perform(execution: Execution, sandbox: Sandbox) -> ProviderUnavailable | None:
    """Run a claimed command and record its end; return the failure of a provider that was away."""
    output = Output(execution)
    try:
        live = live_sandbox(sandbox)
        if not insist(lambda: _started(execution, sandbox)):
            return None
        with output.pulse() as cancelled:
            result = live.execute(_command(execution), on_output=output.add, cancelled=cancelled)
    except SandboxLost as error:
        lost = error.detail
        insist(lambda: sandbox_lost(sandbox=sandbox, reason=lost))
        reason = f"{error.detail}; the command may have run in part"
        _settle(execution, output, ExecutionState.UNKNOWN, reason=reason)
    except CommandLost as error:
        insist(lambda: sandbox_doubt(sandbox=sandbox, reason="A command in it was lost"))
        reason = f"{error.detail}; the command may have run in part or to its end"
        _settle(execution, output, ExecutionState.UNKNOWN, reason=reason)
        return error
    except OmniWebError as error:
        _settle(execution, output, ExecutionState.FAILED, reason=error.detail)
        return error if isinstance(error, ProviderUnavailable) else None
    except AWAY:
        # It was not handed over: the reconciler gives it to another worker.
        raise
    except Exception as error:
        began = execution.state == ExecutionState.RUNNING
        state = ExecutionState.UNKNOWN if began else ExecutionState.FAILED
        when = "while the command ran" if began else "before the command ran"
        reason = f"OmniWeb failed {when} ({type(error).__name__})"
        _settle(execution, output, state, reason=reason)
        raise
    else:
        _settle(execution, output, *_verdict(execution, result), result=result)
        if result.session_lost:
            sandbox_lost(sandbox=sandbox, reason="It was removed to stop a command")
    return None


def _command(execution: Execution) -> Command:
    return Command(
        argv=tuple(execution.argv),
        cwd=execution.cwd,
        env=execution.env,
        stdin=bytes(execution.stdin) if execution.stdin is not None else None,
        time_limit_seconds=execution.time_limit_seconds,
    )


def _started(execution: Execution, sandbox: Sandbox) -> bool:
    """Commit that the command is about to be handed over; False when the claim was taken away."""
    with trajectory_held(execution.run.trajectory_id):
        if not transition(
            execution,
            ExecutionState.RUNNING,
            source=["starting"],
            where={"claim": execution.claim, "cancel_requested_at__isnull": True},
            started_at=now(),
        ):
            execution_drop(execution)
            return False
        step_append(
            trajectory=execution.run.trajectory,
            kind=StepKind.EXECUTION_STARTED,
            actor="worker",
            payload={
                "execution": execution.ref,
                "argv": execution.argv,
                "cwd": execution.cwd,
                "env_names": sorted(execution.env),
                "time_limit_seconds": execution.time_limit_seconds,
                "stdin_bytes": len(execution.stdin) if execution.stdin is not None else None,
                "sandbox": sandbox.ref,
                "decision": execution.decision.ref if execution.decision else None,
                "provider": execution.run.provider,
            },
            clean=redactor_for(execution.run, execution.env),
        )
        publish("execution", execution.id)
        publish("run", execution.run_id)
    return True


def execution_drop(execution: Execution) -> None:
    """Cancel a claimed command that was not handed over and is no longer wanted."""
    moved = transition(
        execution,
        ExecutionState.CANCELLED,
        source=["starting"],
        where={"claim": execution.claim},
        reason="The run has ended",
        ended_at=now(),
    )
    if moved:
        publish("execution", execution.id)
        enqueue("sandboxes.run_finish", run=execution.run.ref)


def _verdict(execution: Execution, result: CommandResult) -> tuple[ExecutionState, str]:
    if result.timed_out:
        limit = execution.time_limit_seconds
        return ExecutionState.TIMED_OUT, f"The time limit of {limit} s was reached"
    if result.cancelled:
        return ExecutionState.CANCELLED, "The command was stopped"
    return ExecutionState.FINISHED, ""


def _settle(
    execution: Execution,
    output: Output,
    state: ExecutionState,
    reason: str = "",
    *,
    result: CommandResult | None = None,
) -> None:
    """Record how the command ended, once the database takes it: it will not run again."""
    insist(lambda: _settle_once(execution, output, state, reason, result))


def _settle_once(
    execution: Execution,
    output: Output,
    state: ExecutionState,
    reason: str,
    result: CommandResult | None,
) -> None:
    """Write output, result and state in one transaction."""
    reason = redactor_for(execution.run, execution.env).text(reason)
    with trajectory_held(execution.run.trajectory_id):
        kept = output.close()
        moved = transition(
            execution,
            state,
            source=["starting", "running"],
            where={"claim": execution.claim},
            reason=reason,
            ended_at=now(),
            exit_code=result.exit_code if result else None,
            stdout=kept.stdout,
            stderr=kept.stderr,
            stdout_bytes=result.stdout_bytes if result else kept.stdout_size,
            stderr_bytes=result.stderr_bytes if result else kept.stderr_size,
            stdout_truncated=bool(result and result.stdout_truncated),
            stderr_truncated=bool(result and result.stderr_truncated),
        )
        if not moved:
            logger.warning("%s was taken from its worker; its result is dropped", execution.ref)
            return
        execution_tell_end(execution)
        Run.objects.filter(pk=execution.run_id).update(last_seen_at=now())
        if execution.cancel_requested_at or Run.objects.get(pk=execution.run_id).is_over:
            enqueue("sandboxes.run_finish", run=execution.run.ref)


def execution_tell_end(execution: Execution) -> None:
    """Write the steps that say how a command ended, and hint at it."""
    trajectory = execution.run.trajectory
    for stream, blob, size, truncated in (
        ("stdout", execution.stdout, execution.stdout_bytes, execution.stdout_truncated),
        ("stderr", execution.stderr, execution.stderr_bytes, execution.stderr_truncated),
    ):
        if blob is not None:
            step_append(
                trajectory=trajectory,
                kind=StepKind.OUTPUT,
                actor="worker",
                payload={
                    "execution": execution.ref,
                    "stream": stream,
                    "digest": blob.digest,
                    "size": size,
                    "kept": blob.size,
                    "truncated": truncated,
                },
            )
    step_append(
        trajectory=trajectory,
        kind=StepKind.EXECUTION_ENDED,
        actor="worker",
        payload={
            "execution": execution.ref,
            "state": execution.state,
            "exit_code": execution.exit_code,
            "timed_out": execution.state == ExecutionState.TIMED_OUT,
            "duration_ms": execution.duration_ms,
            "error": execution.reason,
            "stdout_truncated": execution.stdout_truncated,
            "stderr_truncated": execution.stderr_truncated,
        },
    )
    publish("execution", execution.id)
    publish("run", execution.run_id)
