"""Decisions, requests, votes and grants over the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Query, Schema
from pydantic import Field

from approvals.eligibility import why_not_decide
from approvals.models import (
    Decision,
    Grant,
    Request,
    RequestKind,
    RequestState,
    Scope,
    Verdict,
    Vote,
)
from approvals.policy.decision import Effect
from approvals.selectors import decisions_visible, grants_visible, requests_visible
from approvals.services.grants import grant_revoke
from approvals.services.votes import vote_cast
from omniweb.accounts import http
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action, Actor
from omniweb.accounts.selectors import agents_visible
from omniweb.core.ids import ref as reference
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing
from omniweb.core.waiting import preferred_wait, wait_until

router = Operations(tags=["Approvals"])

# What a request is about, as the prefix of its reference.
SUBJECTS = {RequestKind.EXECUTION: "exe", RequestKind.MANIFEST: "run"}


class DecisionOut(Schema):
    """One answer of a policy."""

    id: str
    at: datetime
    agent: str
    trajectory: str
    policy: str
    policy_version: int
    capability: str
    effect: Effect
    reason_code: str
    reason: str
    matched_rules: list[str]
    constraints: Json
    request: str | None = Field(description="The approval request it led to")
    authority_request: Json
    explanation: Json

    @classmethod
    def of(cls, row: Decision) -> DecisionOut:
        """Show a decision."""
        return cls(
            id=row.ref,
            at=row.created_at,
            agent=row.agent.ref,
            trajectory=row.trajectory.ref,
            policy=row.version.policy.name,
            policy_version=row.version.number,
            capability=row.capability,
            effect=Effect(row.effect),
            reason_code=row.reason_code,
            reason=row.reason,
            matched_rules=row.matched_rules,
            constraints=row.constraints,
            request=row.request.ref if row.request else None,
            authority_request=row.authority_request,
            explanation=row.explanation,
        )


class DecisionFilter(PageQuery):
    """Which decisions to list."""

    effect: Effect | None = None
    agent: Text = Field("", description="An agent's reference")


@router.operation("GET", "/decisions", Listing[DecisionOut], people=Action.VIEW, agents=True)
def decisions_list_view(request: http.Request, page: Query[DecisionFilter]) -> Listing[DecisionOut]:
    """List what policies decided; an agent sees those about itself."""
    rows = decisions_visible(request.actor)
    if page.effect:
        rows = rows.filter(effect=page.effect)
    if page.agent:
        rows = rows.filter(agent=agents_visible(request.actor).by_ref(page.agent))
    return listing(paginate(rows, page.cursor, page.limit), DecisionOut.of)


@router.operation("GET", "/decisions/{ref}", DecisionOut, people=Action.VIEW, agents=True)
def decision_view(request: http.Request, ref: str) -> DecisionOut:
    """Get one decision."""
    return DecisionOut.of(decisions_visible(request.actor).by_ref(ref))


class VoteOut(Schema):
    """One person's verdict."""

    id: str
    at: datetime
    voter: str
    verdict: Verdict
    scope: Scope
    reason: str

    @classmethod
    def of(cls, row: Vote) -> VoteOut:
        """Show a vote."""
        return cls(
            id=row.ref,
            at=row.created_at,
            voter=row.voter.email,
            verdict=Verdict(row.verdict),
            scope=Scope(row.scope),
            reason=row.reason,
        )


class RequestOut(Schema):
    """Something that waits for people, or waited."""

    id: str
    at: datetime
    kind: RequestKind
    state: RequestState
    subject: str = Field(description="The execution or the run it is about")
    trajectory: str
    agent: str
    agent_name: str
    owner: str
    policy: str
    policy_version: int
    sentence: str = Field(description="What will happen")
    risk: str
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    scope: str
    reason: str

    @classmethod
    def of(cls, row: Request) -> RequestOut:
        """Show a request in a list."""
        return cls(**_request_fields(row))


class RequestDetail(RequestOut):
    """All that is on a request's card."""

    candidate: Json = Field(description="The exact thing that will happen")
    lines: list[Json] = Field(description="Each thing asked, with its rule and reason")
    terms: Json
    scopes: list[Scope] = Field(description="Those a voter may give")
    votes_needed: int
    votes: list[VoteOut]
    review_token: str | None = Field(description="Goes into a vote: it binds it to this card")
    why_not: str | None = Field(description="Why the reader may not decide; null when they may")

    @classmethod
    def seen(cls, row: Request, actor: Actor) -> RequestDetail:
        """Show a request's card to an actor."""
        return cls(
            **_request_fields(row),
            candidate=row.candidate,
            lines=row.lines,
            terms=row.terms,
            scopes=row.scopes,
            votes_needed=row.votes_needed,
            votes=[VoteOut.of(vote) for vote in row.votes.select_related("voter")],
            review_token=None if actor.agent else row.review_token,
            why_not=why_not_decide(actor, row),
        )


def _request_fields(row: Request) -> dict[str, Any]:
    return {
        "id": row.ref,
        "at": row.created_at,
        "kind": row.kind,
        "state": row.state,
        "subject": reference(SUBJECTS[RequestKind(row.kind)], row.subject_id),
        "trajectory": row.trajectory.ref,
        "agent": row.agent.ref,
        "agent_name": row.agent.name,
        "owner": row.owner.email,
        "policy": row.version.policy.name,
        "policy_version": row.version.number,
        "sentence": row.sentence,
        "risk": row.risk,
        "expires_at": row.expires_at,
        "decided_at": row.decided_at,
        "decided_by": row.decided_by.email if row.decided_by else None,
        "scope": row.scope,
        "reason": row.reason,
    }


class RequestFilter(PageQuery):
    """Which requests to list."""

    state: RequestState | None = None
    kind: RequestKind | None = None


@router.operation("GET", "/requests", Listing[RequestOut], people=Action.VIEW, agents=True)
def requests_list_view(request: http.Request, page: Query[RequestFilter]) -> Listing[RequestOut]:
    """List approval requests; an agent sees its own."""
    rows = requests_visible(request.actor)
    if page.state:
        rows = rows.filter(state=page.state)
    if page.kind:
        rows = rows.filter(kind=page.kind)
    return listing(paginate(rows, page.cursor, page.limit), RequestOut.of)


@router.operation(
    "GET", "/requests/{ref}", RequestDetail, people=Action.VIEW, agents=True, waits=True
)
async def request_view(request: http.Request, ref: str) -> RequestDetail:
    """Get a request with all that is on its card, perhaps once it is decided."""
    actor = request.actor

    def look() -> RequestDetail:
        return RequestDetail.seen(requests_visible(actor).by_ref(ref), actor)

    return await wait_until(
        ("inbox", actor.team_id),
        look,
        lambda seen: seen.state is not RequestState.OPEN,
        preferred_wait(request),
    )


class VoteIn(Body):
    """A verdict on what was shown."""

    verdict: Verdict
    review_token: Text = Field(description="Of the card that was shown")
    scope: Scope = Scope.ONCE
    reason: Text = ""


@router.operation(
    "POST",
    "/requests/{ref}/votes",
    RequestDetail,
    people=Action.REQUEST_DECIDE,
    status=201,
    makes=True,
)
def vote_create_view(request: http.Request, ref: str, body: VoteIn) -> RequestDetail:
    """Vote on a request; the deciding vote lets what waits move on, or refuses it.

    `stale` when the card has changed since, `already_decided` when someone else was first.
    """
    actor = request.actor
    vote_cast(
        actor=actor,
        request=requests_visible(actor).by_ref(ref),
        verdict=body.verdict,
        review_token=body.review_token,
        scope=body.scope,
        reason=body.reason,
    )
    return RequestDetail.seen(requests_visible(actor).by_ref(ref), actor)


class GrantOut(Schema):
    """A standing yes: the same thing again in the same run needs no new decision."""

    id: str
    at: datetime
    agent: str
    request: str
    sentence: str
    trajectory: str
    given_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, row: Grant) -> GrantOut:
        """Show a grant."""
        return cls(
            id=row.ref,
            at=row.created_at,
            agent=row.agent.ref,
            request=row.request.ref,
            sentence=row.request.sentence,
            trajectory=row.trajectory.ref,
            given_by=row.given_by.email,
            last_used_at=row.last_used_at,
            revoked_at=row.revoked_at,
        )


@router.operation("GET", "/grants", Listing[GrantOut], people=Action.VIEW)
def grants_list_view(request: http.Request, page: Query[PageQuery]) -> Listing[GrantOut]:
    """List standing yeses."""
    rows = grants_visible(request.actor).select_related("trajectory")
    return listing(paginate(rows, page.cursor, page.limit), GrantOut.of)


@router.operation("DELETE", "/grants/{ref}", None, people=Action.REQUEST_DECIDE, status=204)
def grant_revoke_view(request: http.Request, ref: str) -> None:
    """Take a standing yes back: what it covered asks again."""
    grant_revoke(actor=request.actor, grant=grants_visible(request.actor).by_ref(ref))
