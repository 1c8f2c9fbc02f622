"""The fleet over the API."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.clock import now
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Json, Listing, PageQuery, listing
from sandboxes.models import Sandbox, SandboxState
from sandboxes.selectors import sandboxes_visible
from sandboxes.services.prices import Costing
from sandboxes.services.sandboxes import sandbox_end
from sandboxes.services.sleep import sandbox_pause, sandbox_wake

router = Operations(tags=["Environments and sandboxes"])


class SandboxOut(Schema):
    """A sandbox, live or past."""

    id: str
    run: str
    agent: str
    agent_name: str
    environment: str
    provider: str
    state: SandboxState
    reason: str
    isolation: Json = Field(description="What was seen from inside before its first command")
    created_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    paused_at: datetime | None = Field(description="Since when it sleeps")
    cost: dict[str, str] = Field(
        description="What it has cost so far, by currency; empty where no price is set"
    )

    @classmethod
    def of(cls, row: Sandbox, costing: Costing) -> SandboxOut:
        """Show a sandbox."""
        return cls(
            id=row.ref,
            run=row.run.ref,
            agent=row.run.agent.ref,
            agent_name=row.run.agent.name,
            environment=row.run.environment.name,
            provider=row.provider,
            state=SandboxState(row.state),
            reason=row.reason,
            isolation=row.isolation,
            created_at=row.created_at,
            ready_at=row.ready_at,
            ended_at=row.ended_at,
            paused_at=row.paused_at,
            cost={name: f"{amount:.6f}" for name, amount in costing.of(row).items()},
        )


def _costing(request: Request) -> Costing:
    return Costing(request.actor.team, now())


class SandboxFilter(PageQuery):
    """Which sandboxes to list."""

    state: SandboxState | None = None


@router.operation("GET", "/sandboxes", Listing[SandboxOut], people=Action.VIEW, agents=True)
def sandboxes_list_view(request: Request, page: Query[SandboxFilter]) -> Listing[SandboxOut]:
    """List sandboxes; an agent sees those of its own runs."""
    rows = sandboxes_visible(request.actor)
    if page.state:
        rows = rows.filter(state=page.state)
    show = partial(SandboxOut.of, costing=_costing(request))
    return listing(paginate(rows, page.cursor, page.limit), show)


@router.operation("GET", "/sandboxes/{ref}", SandboxOut, people=Action.VIEW, agents=True)
def sandbox_view(request: Request, ref: str) -> SandboxOut:
    """Get a sandbox."""
    return SandboxOut.of(sandboxes_visible(request.actor).by_ref(ref), _costing(request))


@router.operation("POST", "/sandboxes/{ref}/end", SandboxOut, people=Action.RUN_END)
def sandbox_end_view(request: Request, ref: str) -> SandboxOut:
    """End a sandbox: what runs in it is stopped; its run's next command gets a new one."""
    row = sandboxes_visible(request.actor).by_ref(ref)
    sandbox_end(actor=request.actor, sandbox=row)
    return SandboxOut.of(row, _costing(request))


@router.operation("POST", "/sandboxes/{ref}/pause", SandboxOut, people=Action.RUN_END)
def sandbox_pause_view(request: Request, ref: str) -> SandboxOut:
    """Pause a sandbox that nothing runs in; its run's next command wakes it."""
    row = sandboxes_visible(request.actor).by_ref(ref)
    sandbox_pause(actor=request.actor, sandbox=row)
    return SandboxOut.of(row, _costing(request))


@router.operation("POST", "/sandboxes/{ref}/wake", SandboxOut, people=Action.RUN_END)
def sandbox_wake_view(request: Request, ref: str) -> SandboxOut:
    """Wake a paused sandbox; it is `ready` a moment later."""
    row = sandboxes_visible(request.actor).by_ref(ref)
    sandbox_wake(actor=request.actor, sandbox=row)
    return SandboxOut.of(row, _costing(request))
