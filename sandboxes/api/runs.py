"""Runs over the API: opening, ending, files, messages, and the record of each."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.asynchronous import in_thread
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing
from omniweb.core.text import natural
from omniweb.core.waiting import preferred_wait
from sandboxes.holdups import holdup_of
from sandboxes.manifest import Manifest
from sandboxes.models import Run, RunState
from sandboxes.models.run import ENDED
from sandboxes.secrecy import redactor_for
from sandboxes.selectors import run_facts, runs_visible
from sandboxes.services.files import file_read, file_write
from sandboxes.services.messages import MAX_MESSAGE, message_report
from sandboxes.services.prices import run_cost
from sandboxes.services.runs import run_end, run_open
from sandboxes.uploads import upload_read
from sandboxes.waiting import sandbox_wait
from trajectories.api import (
    RAW,
    StepOut,
    Steps,
    StepsQuery,
    VerificationOut,
    raw,
    step_events,
    step_shown,
    steps_shown,
    verified,
)
from trajectories.nested import nested_trajectory

router = Operations(tags=["Runs"])

_BYTES = {"content": {RAW: {"schema": {"type": "string"}}}}

# The number of a step; a larger one fits no row.
After = Annotated[int, Field(ge=0, lt=2**31)]


class RunOut(Schema):
    """One use of a sandbox by an agent."""

    id: str
    title: str
    group: str
    state: RunState
    reason: str
    agent: str
    agent_name: str
    policy: str
    policy_version: int
    environment: str
    provider: str
    trajectory: str
    steps: int
    is_cleared: bool = Field(description="Whether everything its manifest asks for is allowed")
    created_at: datetime
    last_seen_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, row: Run) -> RunOut:
        """Show a run in a list."""
        return cls(**_run_fields(row))


class RunDetail(RunOut):
    """A run with its manifest."""

    manifest: Json
    manifest_digest: str
    waits_for: str = Field(description="What keeps its sandbox from being made; mostly empty")
    cost: dict[str, str] = Field(
        description="What its sandboxes have cost so far, by currency; empty where no price is set"
    )

    @classmethod
    def seen(cls, row: Run) -> RunDetail:
        """Show a run, its secrets masked."""
        manifest = redactor_for(row).value(row.manifest)
        return cls(
            **_run_fields(row),
            manifest=manifest,
            manifest_digest=row.manifest_digest,
            waits_for=holdup_of(row),
            cost={name: f"{amount:.6f}" for name, amount in run_cost(row).items()},
        )


def _run_fields(row: Run) -> dict[str, Any]:
    return {
        "id": row.ref,
        "title": row.title,
        "group": row.group,
        "state": row.state,
        "reason": row.reason,
        "agent": row.agent.ref,
        "agent_name": row.agent.name,
        "policy": row.version.policy.name,
        "policy_version": row.version.number,
        "environment": row.environment.name,
        "provider": row.provider,
        "trajectory": row.trajectory.ref,
        "steps": row.trajectory.head_seq,
        "is_cleared": row.cleared_at is not None,
        "created_at": row.created_at,
        "last_seen_at": row.last_seen_at,
        "ended_at": row.ended_at,
    }


class RunFilter(PageQuery):
    """Which runs to list."""

    state: RunState | None = None
    agent: Text = Field("", description="An agent's name")
    group: Text = ""


class RunIn(Body):
    """A run to open. The manifest says what differs from the environment's."""

    title: Text = Field("", max_length=200)
    group: Text = Field("", max_length=200)
    manifest: Json | None = None


class EndIn(Body):
    """How a run ended."""

    outcome: Literal["succeeded", "failed", "cancelled"] = "succeeded"
    reason: Text = Field("", max_length=4000)


@router.operation("GET", "/runs", Listing[RunOut], people=Action.VIEW, agents=True)
def runs_list_view(request: Request, page: Query[RunFilter]) -> Listing[RunOut]:
    """List runs; an agent sees its own."""
    rows = runs_visible(request.actor)
    for name, value in (("agent__name", page.agent), ("group", page.group)):
        rows = rows.filter(**{name: value}) if value else rows
    if page.state:
        rows = rows.filter(state=page.state)
    return listing(paginate(rows, page.cursor, page.limit), RunOut.of)


@router.operation("POST", "/runs", RunDetail, agents=True, status=201, makes=True)
def run_open_view(request: Request, body: RunIn) -> RunDetail:
    """Open a run; everything its manifest asks for is decided at once.

    It may have to wait for people before its commands run: then its state is `waiting`.
    """
    manifest = Manifest.parse(body.manifest) if body.manifest is not None else None
    run = run_open(actor=request.actor, manifest=manifest, title=body.title, group=body.group)
    return RunDetail.seen(_run(request.actor, run.ref))


@router.operation("GET", "/runs/{ref}", RunDetail, people=Action.VIEW, agents=True)
def run_view(request: Request, ref: str) -> RunDetail:
    """Get a run."""
    return RunDetail.seen(_run(request.actor, ref))


@router.operation("POST", "/runs/{ref}/end", RunDetail, people=Action.RUN_END, agents=True)
def run_end_view(request: Request, ref: str, body: EndIn) -> RunDetail:
    """End a run: what waits is withdrawn, what runs is stopped, its sandbox goes."""
    actor = request.actor
    run = _run(actor, ref)
    run_end(actor=actor, run=run, outcome=RunState(body.outcome), reason=body.reason)
    return RunDetail.seen(_run(actor, ref))


def _run(actor: Actor, ref: str) -> Run:
    return runs_visible(actor).by_ref(ref)


@router.operation(
    "GET",
    "/runs/{ref}/trajectory",
    None,
    people=Action.VIEW,
    agents=True,
    sends="application/json",
)
def run_trajectory_view(request: Request, ref: str) -> JsonResponse:
    """Get a run's whole record, nested: segments, steps, tool calls, executions."""
    run = _run(request.actor, ref)
    return JsonResponse(nested_trajectory(run.trajectory, run_facts=run_facts(run)))


@router.operation("GET", "/runs/{ref}/steps", Steps, people=Action.VIEW, agents=True)
def run_steps_view(request: Request, ref: str, query: Query[StepsQuery]) -> Steps:
    """Read a run's record step by step, each exactly as it was hashed."""
    return steps_shown(_run(request.actor, ref).trajectory, query)


@router.operation("POST", "/runs/{ref}/verify", VerificationOut, people=Action.VIEW, agents=True)
def run_verify_view(request: Request, ref: str) -> VerificationOut:
    """Verify the whole chain of a run's record and its signatures."""
    return verified(_run(request.actor, ref).trajectory)


@router.operation(
    "GET",
    "/runs/{ref}/events",
    None,
    people=Action.VIEW,
    agents=True,
    sends="text/event-stream",
)
async def run_events_view(request: Request, ref: str, after: After = 0) -> StreamingHttpResponse:
    """Follow a run: server-sent events `step`, `state`, `hint`, `end`.

    `after`, or the header `Last-Event-ID`, is the number of the last step that is known.
    """
    run = await in_thread(_run, request.actor, ref)
    last = natural(request.headers.get("Last-Event-ID", ""))

    def state() -> str:
        return Run.objects.values_list("state", flat=True).get(pk=run.pk)

    events = step_events(
        run.trajectory,
        ("run", run.pk),
        after=after if last is None else last,
        state=state,
        is_over=ENDED.__contains__,
    )
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    # nginx would otherwise keep the events until its buffer is full.
    response["X-Accel-Buffering"] = "no"
    return response


class MessageIn(Body):
    """Something said to or by the agent."""

    role: Literal["system", "user", "assistant"]
    text: Text = Field(max_length=MAX_MESSAGE)


@router.operation("POST", "/runs/{ref}/messages", StepOut, agents=True, status=201, makes=True)
def message_create_view(request: Request, ref: str, body: MessageIn) -> StepOut:
    """Add to the record what was said to or by the agent."""
    run = _run(request.actor, ref)
    return step_shown(message_report(actor=request.actor, run=run, role=body.role, text=body.text))


@router.operation(
    "PUT",
    "/runs/{ref}/files",
    None,
    agents=True,
    status=204,
    waits=True,
    extra={"requestBody": {"required": True, **_BYTES}},
)
async def file_write_view(request: Request, ref: str, path: Text) -> None:
    """Write a file in a run's sandbox; the body is its bytes."""
    run = await in_thread(_run, request.actor, ref)
    data = upload_read(request)
    await sandbox_wait(run, preferred_wait(request))
    run = await in_thread(_run, request.actor, ref)
    await in_thread(file_write, actor=request.actor, run=run, path=path, data=data)


@router.operation("GET", "/runs/{ref}/files", None, agents=True, waits=True, sends=RAW)
async def file_read_view(request: Request, ref: str, path: Text) -> HttpResponse:
    """Read a file of a run's sandbox, byte for byte."""
    run = await in_thread(_run, request.actor, ref)
    await sandbox_wait(run, preferred_wait(request))
    run = await in_thread(_run, request.actor, ref)
    return raw(await in_thread(file_read, actor=request.actor, run=run, path=path))
