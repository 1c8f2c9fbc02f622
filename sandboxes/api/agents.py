"""Agents and their profiles over the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Query, Schema
from pydantic import Field

from approvals.selectors import policies_kept
from omniweb.accounts.http import Request
from omniweb.accounts.models import AgentIdentity
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action, Actor
from omniweb.accounts.selectors import agents_visible, member_named
from omniweb.core.errors import InvalidInput, NotFound, Problem
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Listing, PageQuery, Text, listing
from sandboxes.models import Profile
from sandboxes.selectors import environments_visible
from sandboxes.services.profiles import agent_register, profile_set

router = Operations(tags=["Agents"])


class AgentOut(Schema):
    """An agent, and what its next run is opened under."""

    id: str
    name: str
    owner: str
    is_active: bool
    created_at: datetime
    policy: str | None
    policy_name: str | None
    environment: str | None
    environment_name: str | None

    @classmethod
    def of(cls, row: AgentIdentity) -> AgentOut:
        """Show an agent."""
        profile: Profile | None = getattr(row, "profile", None)
        return cls(
            id=row.ref,
            name=row.name,
            owner=row.owner.email,
            is_active=row.is_active,
            created_at=row.created_at,
            policy=profile.policy.ref if profile else None,
            policy_name=profile.policy.name if profile else None,
            environment=profile.environment.ref if profile else None,
            environment_name=profile.environment.name if profile else None,
        )


class ProfileIn(Body):
    """What an agent runs under: each a name or a reference."""

    policy: Text
    environment: Text


class AgentIn(ProfileIn):
    """A new agent. Its owner is a person of the team, who answers for it."""

    name: Text
    owner: Text = Field(description="The owner's address")


def _agents(actor: Actor) -> Any:
    return agents_visible(actor).select_related("profile__policy", "profile__environment")


def _named(rows: Any, path: str, text: str) -> Any:
    found = rows.filter(name=text).first()
    if found is None:
        try:
            found = rows.by_ref(text)
        except NotFound as error:
            raise InvalidInput(problems=[Problem(path=path, message=error.detail)]) from None
    return found


def _profile(actor: Actor, body: ProfileIn) -> dict[str, Any]:
    return {
        "policy": _named(policies_kept(actor), "policy", body.policy),
        "environment": _named(environments_visible(actor), "environment", body.environment),
    }


@router.operation("GET", "/agents", Listing[AgentOut], people=Action.VIEW, agents=True)
def agents_list_view(request: Request, page: Query[PageQuery]) -> Listing[AgentOut]:
    """List the agents of the team; an agent sees itself."""
    return listing(paginate(_agents(request.actor), page.cursor, page.limit), AgentOut.of)


@router.operation("POST", "/agents", AgentOut, people=Action.CONFIGURE, status=201, makes=True)
def agent_create_view(request: Request, body: AgentIn) -> AgentOut:
    """Register an agent with its policy and environment."""
    actor = request.actor
    try:
        owner = member_named(actor.team, body.owner)
    except NotFound as error:
        raise InvalidInput(problems=[Problem(path="owner", message=error.detail)]) from None
    agent = agent_register(actor=actor, name=body.name, owner=owner, **_profile(actor, body))
    return AgentOut.of(_agents(actor).get(pk=agent.pk))


@router.operation("GET", "/agents/{ref}", AgentOut, people=Action.VIEW, agents=True)
def agent_view(request: Request, ref: str) -> AgentOut:
    """Get an agent."""
    return AgentOut.of(_agents(request.actor).by_ref(ref))


@router.operation("PUT", "/agents/{ref}/profile", AgentOut, people=Action.CONFIGURE)
def profile_set_view(request: Request, ref: str, body: ProfileIn) -> AgentOut:
    """Choose the policy and the environment of the runs an agent opens from now on."""
    actor = request.actor
    agent = agents_visible(actor).by_ref(ref)
    profile_set(actor=actor, agent=agent, **_profile(actor, body))
    return AgentOut.of(_agents(actor).get(pk=agent.pk))
