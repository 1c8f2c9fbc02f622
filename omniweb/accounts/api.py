"""People and tokens over the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Query, Schema
from pydantic import AwareDatetime, Field

from omniweb.accounts import services
from omniweb.accounts.http import Request
from omniweb.accounts.models import AgentIdentity, ApiToken, Membership, Role
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action, Actor, TokenScope
from omniweb.accounts.selectors import agents_visible, members, tokens_visible
from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.models import AuditEntry
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing

router = Operations(tags=["People and tokens"])


class ActorOut(Schema):
    """Who a token acts for, and what it may do."""

    kind: Literal["person", "agent"]
    id: str
    name: str = Field(description="A person's address, or an agent's name")
    team: str
    team_name: str
    role: Role | None
    scopes: list[TokenScope]
    may: list[Action]


@router.operation("GET", "/me", ActorOut, people=Action.VIEW, agents=True)
def me_view(request: Request) -> ActorOut:
    """Say who the token acts for."""
    actor = request.actor
    who = actor.agent or actor.user
    return ActorOut(
        kind="agent" if actor.agent else "person",
        id=who.ref if who else "",
        name=who.name if isinstance(who, AgentIdentity) else str(who),
        team=actor.team.ref,
        team_name=actor.team.name,
        role=actor.role,
        scopes=sorted(actor.scopes or ()),
        may=[action for action in Action if actor.may(action)],
    )


class MemberOut(Schema):
    """A person in the team."""

    id: str
    user: str
    email: str
    role: Role
    since: datetime

    @classmethod
    def of(cls, row: Membership) -> MemberOut:
        """Show a membership."""
        return cls(
            id=row.ref,
            user=row.user.ref,
            email=row.user.email,
            role=Role(row.role),
            since=row.created_at,
        )


class MemberIn(Body):
    """A person to take into the team."""

    email: Text
    role: Role


@router.operation("GET", "/members", Listing[MemberOut], people=Action.VIEW)
def members_list_view(request: Request, page: Query[PageQuery]) -> Listing[MemberOut]:
    """List the people of the team."""
    rows = members(request.actor.team)
    return listing(paginate(rows, page.cursor, page.limit), MemberOut.of)


@router.operation("POST", "/members", MemberOut, people=Action.ADMINISTER, status=201, makes=True)
def member_create_view(request: Request, body: MemberIn) -> MemberOut:
    """Take a person into the team, with a role."""
    user = services.user_create(actor=request.actor, email=body.email, role=body.role)
    return MemberOut.of(members(request.actor.team).get(user=user))


class TokenOut(Schema):
    """A token, without its secret."""

    id: str
    label: str
    start: str = Field(description="Its first letters")
    user: str | None
    agent: str | None
    holder: str
    scopes: list[TokenScope]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    @classmethod
    def of(cls, row: ApiToken) -> TokenOut:
        """Show a token."""
        return cls(**_token_fields(row))


class TokenMade(TokenOut):
    """A new token with its secret, which is shown only now."""

    secret: str


class TokenIn(Body):
    """A token to make: for an agent, or for a person of the team (by default oneself)."""

    agent: Text | None = Field(None, description="The agent's reference")
    user: Text | None = Field(None, description="The person's reference")
    scopes: list[TokenScope] = []
    label: Text = Field("", max_length=100)
    expires_at: AwareDatetime | None = None


def _token_fields(row: ApiToken) -> dict[str, Any]:
    holder = row.user or row.agent
    return {
        "id": row.ref,
        "label": row.label,
        "start": row.start,
        "user": row.user.ref if row.user else None,
        "agent": row.agent.ref if row.agent else None,
        "holder": str(holder),
        "scopes": row.scopes,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }


@router.operation("GET", "/tokens", Listing[TokenOut], people=Action.VIEW)
def tokens_list_view(request: Request, page: Query[PageQuery]) -> Listing[TokenOut]:
    """List tokens: all of the team for those who may make them, otherwise one's own."""
    rows = tokens_visible(request.actor)
    if not request.actor.may(Action.ADMINISTER):
        mine = rows.filter(user=request.actor.user)
        is_operator = request.actor.may(Action.CONFIGURE)
        rows = mine | rows.filter(agent__isnull=False) if is_operator else mine
    return listing(paginate(rows, page.cursor, page.limit), TokenOut.of)


@router.operation("POST", "/tokens", TokenMade, people=Action.VIEW, status=201, makes=True)
def token_create_view(request: Request, body: TokenIn) -> TokenMade:
    """Make a token; its secret is in the answer and never shown again."""
    actor = request.actor
    if body.agent and body.user:
        problem = Problem(path="agent", message="a token is an agent's or a person's, not both")
        raise InvalidInput(problems=[problem])
    agent = agents_visible(actor).by_ref(body.agent) if body.agent else None
    token, secret = services.token_create(
        actor=actor,
        agent=agent,
        user=None if agent else _member(actor, body.user).user,
        scopes=[scope.value for scope in body.scopes],
        label=body.label,
        expires_at=body.expires_at,
    )
    return TokenMade(secret=secret, **_token_fields(token))


def _member(actor: Actor, reference: str | None) -> Membership:
    rows = members(actor.team)
    who = actor.user.ref if actor.user and not reference else reference or ""
    found = next((row for row in rows if row.user.ref == who), None)
    if found is None:
        problem = Problem(path="user", message=f"{who} is not a member of {actor.team}")
        raise InvalidInput(problems=[problem])
    return found


@router.operation("DELETE", "/tokens/{ref}", None, people=Action.VIEW, status=204)
def token_revoke_view(request: Request, ref: str) -> None:
    """Revoke a token: it stops working at once."""
    services.token_revoke(actor=request.actor, token=tokens_visible(request.actor).by_ref(ref))


class AuditOut(Schema):
    """Something someone did."""

    id: str
    at: datetime
    actor: str
    act: str
    subject: str
    detail: Json

    @classmethod
    def of(cls, row: AuditEntry) -> AuditOut:
        """Show an audit entry."""
        return cls(
            id=row.ref,
            at=row.created_at,
            actor=row.actor,
            act=row.act,
            subject=row.subject,
            detail=row.detail,
        )


@router.operation("GET", "/audit", Listing[AuditOut], people=Action.RECORD_AUDIT)
def audit_list_view(request: Request, page: Query[PageQuery]) -> Listing[AuditOut]:
    """List who did what."""
    rows = AuditEntry.objects.filter(team_id=request.actor.team_id)
    return listing(paginate(rows, page.cursor, page.limit), AuditOut.of)
