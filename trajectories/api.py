"""The record over the API: steps, blobs, remarks. Runs' own routes to them are in their room."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.asynchronous import in_thread
from omniweb.core.realtime import subscribe
from omniweb.core.schemas import Body, Json, Text
from trajectories.blobs import blob_read
from trajectories.ledger import Verification, verify
from trajectories.models import Step, Trajectory
from trajectories.selectors import steps_range, trajectory_named
from trajectories.services import annotation_add
from trajectories.steps import StepKind

router = Operations(tags=["Record"])

MAX_STEPS = 500
KEEP_ALIVE_SECONDS = 15
# The media type of bytes that are answered as they are.
RAW = "application/octet-stream"


class StepOut(Schema):
    """A step, exactly as it was hashed."""

    trajectory: str = Field(description="The trajectory's key, as it went into the hash")
    seq: int
    at: datetime
    kind: StepKind
    actor: str
    payload: Json
    prev_hash: str
    hash: str


class StepsQuery(Schema):
    """Where to start in a record, and how many steps to return."""

    start: int = Field(1, ge=1, le=2**31 - 1, description="The first step's number")
    limit: int = Field(200, ge=1, le=MAX_STEPS)


class Steps(Schema):
    """Steps in order. `next` is the `start` of those after them, null at the end."""

    items: list[StepOut]
    next: int | None


class VerificationOut(Schema):
    """What verifying a record found."""

    ok: bool
    steps: int
    head: str
    checkpoints: int
    public_key: str
    first_bad_seq: int | None
    why: str


def step_shown(step: Step) -> StepOut:
    """Show a step."""
    return StepOut(**step.to_dict())


def steps_shown(trajectory: Trajectory, query: StepsQuery) -> Steps:
    """Show a range of steps."""
    found = steps_range(trajectory, start=query.start, limit=query.limit + 1)
    more = len(found) > query.limit
    items = [step_shown(step) for step in found[: query.limit]]
    return Steps(items=items, next=query.start + query.limit if more else None)


def verified(trajectory: Trajectory) -> VerificationOut:
    """Verify a whole record and show what came of it."""
    found: Verification = verify(trajectory)
    return VerificationOut(**{name: getattr(found, name) for name in VerificationOut.model_fields})


async def step_events(
    trajectory: Trajectory,
    topic: tuple[str, UUID],
    *,
    after: int,
    state: Callable[[], str],
    is_over: Callable[[str], bool],
) -> AsyncIterator[bytes]:
    """Yield server-sent events: `step` with each step after `after`, `state` when it changes.

    `hint` says that something else has changed, such as the output of a command. Ends with `end`
    once the state is over and every step has been sent. The id of each `step` is its number, so
    that a client that reconnects goes on where it was.
    """
    last = ""
    async with subscribe("trajectory", trajectory.pk, topic) as news:
        while True:
            # The state first: steps that were written before it changed are read after it.
            now = await in_thread(state)
            steps = await in_thread(steps_range, trajectory, start=after + 1, limit=MAX_STEPS)
            for step in steps:
                after = step.seq
                yield _event("step", json.dumps(step.to_dict()), number=step.seq)
            if now != last:
                yield _event("state", json.dumps({"state": now}))
            elif not steps:
                yield _event("hint", "{}")
            last = now
            if is_over(now) and len(steps) < MAX_STEPS:
                yield _event("end", json.dumps({"state": now}))
                return
            while len(steps) < MAX_STEPS and not await news.wait(KEEP_ALIVE_SECONDS):
                yield b": still here\n\n"


def _event(kind: str, data: str, number: int | None = None) -> bytes:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {kind}\ndata: {data}\n\n".encode()


@router.operation("GET", "/trajectories/{ref}/steps", Steps, people=Action.VIEW)
def trajectory_steps_view(request: Request, ref: str, query: Query[StepsQuery]) -> Steps:
    """Read a record step by step, also one that has no run."""
    return steps_shown(trajectory_named(request.actor, ref), query)


@router.operation("GET", "/trajectories/{ref}/blobs/{digest}", None, people=Action.VIEW, sends=RAW)
def blob_view(request: Request, ref: str, digest: str) -> HttpResponse:
    """Get the bytes behind a digest in a record."""
    trajectory = trajectory_named(request.actor, ref)
    return raw(bytes(blob_read(team=trajectory.team, digest=digest).data))


def raw(data: bytes) -> HttpResponse:
    """Answer bytes as they are; no browser interprets them."""
    response = HttpResponse(data, content_type=RAW)
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Disposition"] = "attachment"
    response["Cache-Control"] = "private, no-store"
    return response


class AnnotationIn(Body):
    """A remark on a record, or on one of its steps."""

    text: Text
    seq: int | None = Field(None, ge=1, le=2**31 - 1)


@router.operation(
    "POST",
    "/trajectories/{ref}/annotations",
    StepOut,
    people=Action.RECORD_AUDIT,
    status=201,
    makes=True,
)
def annotation_create_view(request: Request, ref: str, body: AnnotationIn) -> StepOut:
    """Add a remark to a record."""
    trajectory = trajectory_named(request.actor, ref)
    return step_shown(
        annotation_add(actor=request.actor, trajectory=trajectory, text=body.text, seq=body.seq)
    )
