"""Holding a client's request while its command is decided, prepared and run.

A waiting client costs no thread and no connection. It counts as there for WAITER seconds at a
time, so that one that vanished with its whole process is noticed, too.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from django.conf import settings

from omniweb.accounts.permissions import Actor
from omniweb.core.asynchronous import in_thread
from omniweb.core.clock import now
from omniweb.core.errors import ProviderError
from omniweb.core.waiting import wait_until
from sandboxes.models import Execution, ExecutionState, Run, SandboxState
from sandboxes.models.execution import SETTLED
from sandboxes.protocol import words
from sandboxes.protocol.schemas import ExecOut
from sandboxes.providers.base import EXIT_CANNOT_RUN, EXIT_KILLED, Command
from sandboxes.selectors import execution_state, executions_visible, output_bytes, runs_visible
from sandboxes.services.executions import (
    DEFAULT_TIME_LIMIT_SECONDS,
    execution_ask,
    execution_deliver,
    execution_join,
    execution_wait_end,
    execution_wait_extend,
)

WAITER = timedelta(seconds=20)
EXTEND_EVERY = timedelta(seconds=5)
# Clients wait ten seconds longer than the limit they send; half of that is for the way back.
MARGIN_SECONDS = 5

REFUSED = frozenset({"denied", "rejected", "expired", "stale"})


async def exec_answer(actor: Actor, run_ref: str, command: Command) -> ExecOut:
    """Run a command as the policy and people decide; answer its result, or why there is none.

    The same command sent again joins the one whose client gave up. Raises NotFound, and
    ProviderError when the provider failed, which is never a command's result.
    """
    limit = command.time_limit_seconds or DEFAULT_TIME_LIMIT_SECONDS
    patience = max(settings.HTTP_WAIT_SECONDS, limit + MARGIN_SECONDS)
    begun = await in_thread(_begin, actor, run_ref, command)
    if isinstance(begun, ExecOut):
        return begun
    try:
        await _settled(begun, patience)
        return await in_thread(_answer, actor, begun)
    except (asyncio.CancelledError, Exception):
        # The client is gone, or gets an error. Whoever sends the command again goes on where it stopped.
        await asyncio.shield(in_thread(execution_wait_end, execution=begun))
        raise


def _begin(actor: Actor, run_ref: str, command: Command) -> Execution | ExecOut:
    run: Run = runs_visible(actor).by_ref(run_ref)
    until = now() + WAITER
    joined = execution_join(run=run, command=command, waiter_until=until)
    if joined is not None:
        return joined
    if run.is_over:
        return ExecOut(exit_code=EXIT_CANNOT_RUN, stderr=words.session_over(run))
    return execution_ask(actor=actor, run=run, command=command, waiter_until=until)


async def _settled(execution: Execution, patience: float) -> None:
    extend_at = now() + EXTEND_EVERY

    def look() -> str:
        nonlocal extend_at
        if now() >= extend_at:
            extend_at = now() + EXTEND_EVERY
            execution_wait_extend(execution=execution, until=now() + WAITER)
        return execution_state(execution.pk)

    await wait_until(("execution", execution.pk), look, SETTLED.__contains__, patience)


def _answer(actor: Actor, waited: Execution) -> ExecOut:
    execution = executions_visible(actor).get(pk=waited.pk)
    if not execution.is_settled:
        execution_wait_end(execution=execution)
        return _told(execution, words.still_waiting(execution))
    notice = _replacement_notice(execution)
    if not execution_deliver(execution=execution):
        return _told(execution, "The result of this command went to another request for it.")
    if execution.state == ExecutionState.FAILED:
        raise ProviderError(execution.reason, execution=execution.ref)
    if execution.state in REFUSED or execution.started_at is None:
        return _told(execution, words.refusal(execution))
    return _result(execution, notice)


def _told(execution: Execution, text: str) -> ExecOut:
    return ExecOut(exit_code=EXIT_CANNOT_RUN, stderr=text, execution_id=execution.ref)


def _result(execution: Execution, notice: str) -> ExecOut:
    stderr = notice + output_bytes(execution, "stderr").decode("utf-8", "replace")
    if execution.state == ExecutionState.UNKNOWN:
        stderr += words.lost_worker(execution)
    elif execution.state == ExecutionState.CANCELLED:
        stderr += words.stopped(execution)
    return ExecOut(
        exit_code=EXIT_KILLED if execution.exit_code is None else execution.exit_code,
        stdout=output_bytes(execution, "stdout").decode("utf-8", "replace"),
        stderr=stderr,
        timed_out=execution.state == ExecutionState.TIMED_OUT,
        execution_id=execution.ref,
        stdout_truncated=execution.stdout_truncated,
        stderr_truncated=execution.stderr_truncated,
        execution_surface=execution.surface,
    )


def _replacement_notice(execution: Execution) -> str:
    """Say that the sandbox was replaced, with the first result from the new one only."""
    run, sandbox_id = execution.run, execution.sandbox_id
    if sandbox_id is None:
        return ""
    told = run.executions.filter(sandbox_id=sandbox_id, delivered_at__isnull=False)
    if told.exists():
        return ""
    gone = [SandboxState.LOST, SandboxState.TERMINATED]
    lost = run.sandboxes.filter(state__in=gone, id__lt=sandbox_id).order_by("-id").first()
    return words.sandbox_replaced(lost.reason) if lost else ""
