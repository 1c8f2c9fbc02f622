"""Reads of accounts that more than one door needs."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from omniweb.accounts.models import AgentIdentity, ApiToken, Membership, Team, User
from omniweb.accounts.permissions import Actor
from omniweb.core.clock import now
from omniweb.core.errors import NotFound
from omniweb.core.models import RowQuerySet


def tokens_usable() -> QuerySet[ApiToken]:
    """Tokens neither revoked nor expired, of people and agents still active."""
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now())
    return ApiToken.objects.filter(alive, revoked_at__isnull=True).exclude(
        Q(user__is_active=False) | Q(agent__is_active=False)
    )


def agents_visible(actor: Actor) -> RowQuerySet[AgentIdentity]:
    """The agents an actor may see: their team's, or for an agent itself."""
    agents = AgentIdentity.objects.filter(team=actor.team).select_related("owner")
    return agents.filter(pk=actor.agent.pk) if actor.agent else agents


def tokens_visible(actor: Actor) -> RowQuerySet[ApiToken]:
    """The tokens of an actor's team."""
    return ApiToken.objects.filter(team=actor.team).select_related("user", "agent")


def members(team: Team) -> QuerySet[Membership]:
    """Who belongs to a team, by address."""
    return Membership.objects.filter(team=team).select_related("user").order_by("user__email")


def member_named(team: Team, email: str) -> User:
    """Return a team's person by address; raises NotFound."""
    found = members(team).filter(user__email__iexact=email.strip()).first()
    if found is None:
        raise NotFound(f"{email} is not a member of {team}")
    return found.user


def agent_named(team: Team, name: str) -> AgentIdentity:
    """Return a team's agent by name; raises NotFound."""
    agent = AgentIdentity.objects.filter(team=team, name=name).select_related("owner").first()
    if agent is None:
        raise NotFound(f"There is no agent named {name} in {team}")
    return agent
