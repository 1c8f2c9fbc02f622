"""Versions in the shadow, over the API."""

from __future__ import annotations

from datetime import datetime

from ninja import Query, Schema
from pydantic import Field

from approvals.models import Shadow
from approvals.selectors import policies_visible, shadows_visible, version_of
from approvals.services.shadows import MAX_HOURS, shadow_end, shadow_start
from approvals.shade import shadow_findings
from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, listing

router = Operations(tags=["Policies"])


class ShadowOut(Schema):
    """A version that decides beside the one in force, recorded and never obeyed."""

    id: str
    policy: str
    version: int
    created_by: str | None
    created_at: datetime
    until: datetime
    ended_at: datetime | None
    is_deciding: bool

    @classmethod
    def of(cls, row: Shadow) -> ShadowOut:
        """Show a shadow."""
        return cls(
            id=row.ref,
            policy=row.policy.ref,
            version=row.version.number,
            created_by=row.created_by.email if row.created_by else None,
            created_at=row.created_at,
            until=row.until,
            ended_at=row.ended_at,
            is_deciding=row.is_deciding,
        )


class ShadowResult(Schema):
    """A shadow with what it said."""

    shadow: ShadowOut
    result: Json = Field(
        description="Counts by direction and rule, and the newest decisions that differ"
    )


class ShadowIn(Body):
    """Which version decides in the shadow, and for how many hours."""

    version: int
    hours: int = Field(24, ge=1, le=MAX_HOURS)


@router.operation(
    "POST", "/policies/{ref}/shadows", ShadowOut, people=Action.CONFIGURE, status=201, makes=True
)
def shadow_create_view(request: Request, ref: str, body: ShadowIn) -> ShadowOut:
    """Let a version decide in the shadow for a while; one at a time."""
    policy = policies_visible(request.actor).by_ref(ref)
    version = version_of(request.actor, ref, body.version)
    return ShadowOut.of(
        shadow_start(actor=request.actor, policy=policy, version=version, hours=body.hours)
    )


@router.operation("GET", "/policies/{ref}/shadows", Listing[ShadowOut], people=Action.VIEW)
def shadows_list_view(request: Request, ref: str, page: Query[PageQuery]) -> Listing[ShadowOut]:
    """List the versions of a policy that are or were in the shadow."""
    policy = policies_visible(request.actor).by_ref(ref)
    rows = shadows_visible(request.actor).filter(policy=policy)
    return listing(paginate(rows, page.cursor, page.limit), ShadowOut.of)


@router.operation("GET", "/shadows/{ref}", ShadowResult, people=Action.VIEW)
def shadow_view(request: Request, ref: str) -> ShadowResult:
    """Get a shadow with what it said, beside what was decided."""
    row = shadows_visible(request.actor).by_ref(ref)
    return ShadowResult(shadow=ShadowOut.of(row), result=shadow_findings(row))


@router.operation("POST", "/shadows/{ref}/end", ShadowOut, people=Action.CONFIGURE)
def shadow_end_view(request: Request, ref: str) -> ShadowOut:
    """End a shadow before its time; one that is over stays as it is."""
    row = shadows_visible(request.actor).by_ref(ref)
    shadow_end(actor=request.actor, shadow=row)
    return ShadowOut.of(shadows_visible(request.actor).get(pk=row.pk))
