"""Commands over the API."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Literal

from django.http import HttpResponse
from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.asynchronous import in_thread
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Bytes, Listing, PageQuery, Text, listing
from omniweb.core.waiting import preferred_wait, wait_until
from sandboxes.holdups import holdup_of
from sandboxes.models import Execution, ExecutionState
from sandboxes.models.execution import SETTLED
from sandboxes.providers.base import Command
from sandboxes.secrecy import redactor_for
from sandboxes.selectors import (
    execution_state,
    executions_listed,
    executions_visible,
    output_bytes,
    runs_visible,
)
from sandboxes.services.executions import execution_ask, execution_cancel
from trajectories.api import RAW, raw

router = Operations(tags=["Commands"])

# Output given inside an execution; the whole is at its `stdout` and `stderr` addresses.
INLINE_BYTES = 64_000


class ExecutionOut(Schema):
    """A command: what was asked, where it stands, what came of it."""

    id: str
    run: str
    state: ExecutionState
    command: list[str] = Field(description="Its words, secrets masked")
    cwd: str
    env_names: list[str]
    time_limit_seconds: int
    decision: str | None
    effect: str | None
    reason_code: str | None
    matched_rules: list[str]
    request: str | None = Field(description="The approval request it waits or waited for")
    reason: str = Field(description="Why it was refused, in a reviewer's words, or what failed")
    exit_code: int | None
    timed_out: bool
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    execution_surface: str = Field(description="`host` where nothing isolates it, or `sandbox`")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None

    @classmethod
    def of(cls, row: Execution) -> ExecutionOut:
        """Show an execution in a list."""
        return cls(**_fields(row))


class ExecutionDetail(ExecutionOut):
    """A command with the beginning of its output, as far as there is any."""

    stdout: str
    stderr: str
    waits_for: str = Field(description="What keeps its sandbox from being made; mostly empty")

    @classmethod
    def seen(cls, row: Execution) -> ExecutionDetail:
        """Show an execution."""
        return cls(
            **_fields(row),
            stdout=_text(row, "stdout"),
            stderr=_text(row, "stderr"),
            waits_for=holdup_of(row.run) if row.state == ExecutionState.QUEUED else "",
        )


def _text(row: Execution, stream: Literal["stdout", "stderr"]) -> str:
    return output_bytes(row, stream)[:INLINE_BYTES].decode("utf-8", "replace")


def _fields(row: Execution) -> dict[str, Any]:
    decision, clean = row.decision, redactor_for(row.run, row.env)
    return {
        "id": row.ref,
        "run": row.run.ref,
        "state": row.state,
        "command": clean.value(row.argv),
        "cwd": clean.text(row.cwd),
        "env_names": sorted(row.env),
        "time_limit_seconds": row.time_limit_seconds,
        "decision": decision.ref if decision else None,
        "effect": decision.effect if decision else None,
        "reason_code": decision.reason_code if decision else None,
        "matched_rules": decision.matched_rules if decision else [],
        "request": row.request.ref if row.request else None,
        "reason": row.reason,
        "exit_code": row.exit_code,
        "timed_out": row.state == ExecutionState.TIMED_OUT,
        "stdout_bytes": row.stdout_bytes,
        "stderr_bytes": row.stderr_bytes,
        "stdout_truncated": row.stdout_truncated,
        "stderr_truncated": row.stderr_truncated,
        "execution_surface": row.surface,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "duration_ms": row.duration_ms,
    }


class ExecutionIn(Body):
    """A command to run."""

    command: Bytes | list[Bytes] = Field(
        description="A line for `sh -c`, or the words of a command"
    )
    cwd: Text | None = Field(None, description="Absolute, or relative to the working directory")
    env: dict[Bytes, Bytes] = Field(default_factory=dict)
    stdin: Bytes | None = None
    time_limit_seconds: float | None = Field(None, gt=0, description="60 without one")

    def to_command(self) -> Command:
        """Return the command; raises InvalidInput when no system could start it."""
        line = self.command
        return Command(
            argv=("sh", "-c", line) if isinstance(line, str) else tuple(line),
            cwd=self.cwd,
            env=self.env,
            stdin=None if self.stdin is None else self.stdin.encode(),
            time_limit_seconds=self.time_limit_seconds,
        )


class ExecutionFilter(PageQuery):
    """Which commands to list."""

    run: Text = Field("", description="A run's reference")
    state: ExecutionState | None = None


@router.operation(
    "POST", "/runs/{ref}/executions", ExecutionDetail, agents=True, status=201, makes=True
)
def execution_create_view(request: Request, ref: str, body: ExecutionIn) -> ExecutionDetail:
    """Ask to run a command; it comes back denied, waiting for people, or queued.

    Follow it with `GET /executions/{ref}` and `Prefer: wait=60`.
    """
    actor = request.actor
    run = runs_visible(actor).by_ref(ref)
    return ExecutionDetail.seen(execution_ask(actor=actor, run=run, command=body.to_command()))


@router.operation("GET", "/executions", Listing[ExecutionOut], people=Action.VIEW, agents=True)
def executions_list_view(request: Request, page: Query[ExecutionFilter]) -> Listing[ExecutionOut]:
    """List commands; an agent sees those of its own runs."""
    rows = executions_listed(request.actor)
    if page.run:
        rows = rows.filter(run=runs_visible(request.actor).by_ref(page.run))
    if page.state:
        rows = rows.filter(state=page.state)
    return listing(paginate(rows, page.cursor, page.limit), ExecutionOut.of)


@router.operation(
    "GET", "/executions/{ref}", ExecutionDetail, people=Action.VIEW, agents=True, waits=True
)
async def execution_view(request: Request, ref: str) -> ExecutionDetail:
    """Get a command with its output so far, perhaps once it is settled."""
    actor, seconds = request.actor, preferred_wait(request)
    row = await in_thread(_execution, actor, ref)
    if seconds and not row.is_settled:
        # The state alone is looked at meanwhile: all that an execution shows takes ten tables.
        await wait_until(
            ("execution", row.pk), partial(execution_state, row.pk), SETTLED.__contains__, seconds
        )
        row = await in_thread(_execution, actor, ref)
    return await in_thread(ExecutionDetail.seen, row)


@router.operation(
    "POST", "/executions/{ref}/cancel", ExecutionDetail, people=Action.RUN_END, agents=True
)
def execution_cancel_view(request: Request, ref: str) -> ExecutionDetail:
    """Stop a command wherever it stands; what has ended stays as it is."""
    execution_cancel(actor=request.actor, execution=_execution(request.actor, ref))
    return ExecutionDetail.seen(_execution(request.actor, ref))


@router.operation(
    "GET",
    "/executions/{ref}/{stream}",
    None,
    people=Action.VIEW,
    agents=True,
    sends=RAW,
)
def execution_output_view(
    request: Request, ref: str, stream: Literal["stdout", "stderr"]
) -> HttpResponse:
    """Get all of an output stream as it was kept, redacted; of a running command what is there."""
    return raw(output_bytes(_execution(request.actor, ref), stream))


def _execution(actor: Actor, ref: str) -> Execution:
    return executions_visible(actor).by_ref(ref)
