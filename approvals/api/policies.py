"""Policies over the API."""

from __future__ import annotations

from datetime import datetime

from ninja import Query, Schema
from pydantic import Field

from approvals.models import Policy, PolicyVersion
from approvals.questions import question
from approvals.selectors import policies_kept, policies_visible, version_of, versions_visible
from approvals.services.policies import (
    policy_create,
    policy_second_person,
    version_activate,
    version_create,
)
from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing

router = Operations(tags=["Policies"])


class PolicyOut(Schema):
    """A policy; its documents are its versions."""

    id: str
    name: str
    is_builtin: bool
    active_version: int | None
    needs_second_person: bool = Field(description="No author activates a version of their own")
    archived_at: datetime | None
    created_at: datetime

    @classmethod
    def of(cls, row: Policy) -> PolicyOut:
        """Show a policy."""
        active = row.active_version
        return cls(
            id=row.ref,
            name=row.name,
            is_builtin=row.is_builtin,
            active_version=active.number if active else None,
            needs_second_person=row.needs_second_person,
            archived_at=row.archived_at,
            created_at=row.created_at,
        )


class VersionOut(Schema):
    """A version of a policy, as it was saved."""

    id: str
    policy: str
    number: int
    is_active: bool
    digest: str
    note: str
    created_by: str | None
    created_at: datetime
    source: str = Field(description="The document, YAML or JSON, as it was written")

    @classmethod
    def of(cls, row: PolicyVersion) -> VersionOut:
        """Show a version."""
        return cls(
            id=row.ref,
            policy=row.policy.ref,
            number=row.number,
            is_active=row.policy.active_version_id == row.pk,
            digest=row.digest,
            note=row.note,
            created_by=row.created_by.email if row.created_by else None,
            created_at=row.created_at,
            source=row.source,
        )


class VersionIn(Body):
    """A policy document, YAML or JSON as text."""

    source: Text = Field(max_length=1_000_000)
    note: Text = Field("", max_length=500)
    activate: bool = Field(True, description="False saves a draft, even one whose tests fail")
    base: int | None = Field(
        None, description="The newest version this one was made from; refused if there is a newer"
    )


class PolicyIn(Body):
    """A new policy with its first version."""

    name: Text = Field("", description="The document's name by default")
    source: Text = Field(max_length=1_000_000)
    note: Text = Field("", max_length=500)
    activate: bool = Field(True, description="False saves a draft, even one whose tests fail")


class ActivateIn(Body):
    """Why a version becomes the active one; the body may be left out."""

    note: Text = Field("", max_length=500)


class PoliciesQuery(PageQuery):
    """Which policies to list."""

    archived: bool = Field(False, description="Those in the archive instead")


@router.operation("GET", "/policies", Listing[PolicyOut], people=Action.VIEW)
def policies_list_view(request: Request, page: Query[PoliciesQuery]) -> Listing[PolicyOut]:
    """List the policies of the team."""
    rows = policies_kept(request.actor, archived=page.archived)
    return listing(paginate(rows, page.cursor, page.limit), PolicyOut.of)


@router.operation("POST", "/policies", PolicyOut, people=Action.CONFIGURE, status=201, makes=True)
def policy_create_view(request: Request, body: PolicyIn) -> PolicyOut:
    """Create a policy; its first version becomes active unless it stays a draft."""
    return PolicyOut.of(policy_create(actor=request.actor, **body.model_dump()))


@router.operation("GET", "/policies/{ref}", PolicyOut, people=Action.VIEW)
def policy_view(request: Request, ref: str) -> PolicyOut:
    """Get a policy."""
    return PolicyOut.of(policies_visible(request.actor).by_ref(ref))


class PolicyChange(Body):
    """What to change of a policy; its documents change by new versions."""

    needs_second_person: bool


@router.operation("PATCH", "/policies/{ref}", PolicyOut, people=Action.CONFIGURE)
def policy_update_view(request: Request, ref: str, body: PolicyChange) -> PolicyOut:
    """Say whether a version takes someone else than its author to become active.

    Only an admin takes that back.
    """
    policy = policies_visible(request.actor).by_ref(ref)
    needed = body.needs_second_person
    policy_second_person(actor=request.actor, policy=policy, is_needed=needed)
    return PolicyOut.of(policies_visible(request.actor).by_ref(ref))


@router.operation("GET", "/policies/{ref}/versions", Listing[VersionOut], people=Action.VIEW)
def versions_list_view(request: Request, ref: str, page: Query[PageQuery]) -> Listing[VersionOut]:
    """List the versions of a policy."""
    policy = policies_visible(request.actor).by_ref(ref)
    rows = versions_visible(request.actor).filter(policy=policy)
    return listing(paginate(rows, page.cursor, page.limit), VersionOut.of)


@router.operation(
    "POST",
    "/policies/{ref}/versions",
    VersionOut,
    people=Action.CONFIGURE,
    status=201,
    makes=True,
)
def version_create_view(request: Request, ref: str, body: VersionIn) -> VersionOut:
    """Save a new version of a policy, and by default make it the active one."""
    version = version_create(
        actor=request.actor,
        policy=policies_visible(request.actor).by_ref(ref),
        **body.model_dump(),
    )
    return VersionOut.of(versions_visible(request.actor).get(pk=version.pk))


@router.operation("GET", "/policies/{ref}/versions/{int:number}", VersionOut, people=Action.VIEW)
def version_view(request: Request, ref: str, number: int) -> VersionOut:
    """Get one version of a policy."""
    return VersionOut.of(version_of(request.actor, ref, number))


@router.operation(
    "POST", "/policies/{ref}/versions/{int:number}/activate", PolicyOut, people=Action.CONFIGURE
)
def version_activate_view(
    request: Request, ref: str, number: int, body: ActivateIn | None = None
) -> PolicyOut:
    """Make a version the one that new runs are opened under; an older one is a way back."""
    version = version_of(request.actor, ref, number)
    version_activate(actor=request.actor, version=version, note=body.note if body else "")
    return PolicyOut.of(policies_visible(request.actor).by_ref(ref))


class ExplainIn(Body):
    """One question: a command, or a whole authority request."""

    command: Text | list[Text] | None = Field(
        None, description="A shell line, or the words of a command"
    )
    request: Json | None = None
    version: int | None = Field(None, description="The active one by default")


class Explained(Schema):
    """What a policy decides, and why."""

    policy: str
    version: int
    request: Json
    decision: Json


@router.operation("POST", "/policies/{ref}/explain", Explained, people=Action.VIEW)
def policy_explain_view(request: Request, ref: str, body: ExplainIn) -> Explained:
    """Ask a policy one question; nothing happens and nothing is recorded."""
    asked = question(body.command, body.request)
    version = version_of(request.actor, ref, body.version)
    return Explained(
        policy=version.policy.name,
        version=version.number,
        request=asked.to_dict(),
        decision=version.compiled().evaluate(asked).to_dict(),
    )
