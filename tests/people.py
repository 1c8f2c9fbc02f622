"""The cast: the same people in every test, and their agent."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.test import Client

from approvals.selectors import policy_for
from approvals.services.policies import policies_install
from omniweb.accounts.models import AgentIdentity, Role, Team, User
from omniweb.accounts.permissions import Actor, system
from omniweb.accounts.services import token_create, user_create
from sandboxes.models import Environment
from sandboxes.services.environments import environment_create
from sandboxes.services.profiles import agent_register


@dataclass(frozen=True, kw_only=True)
class People:
    """One team with everyone in it, and an outsider who has a team of their own."""

    team: Team
    admin: Actor
    operator: Actor
    owner: Actor
    approver: Actor
    second_approver: Actor
    auditor: Actor
    viewer: Actor
    outsider: Actor
    agent: Actor

    @property
    def everyone(self) -> dict[str, Actor]:
        """All people by name, without the agent."""
        return {name: actor for name, actor in vars(self).items() if name not in ("team", "agent")}


ROLES = {
    "admin": Role.ADMIN,
    "operator": Role.OPERATOR,
    # Owns the agent and may decide, which is what separation of duties is about.
    "owner": Role.APPROVER,
    "approver": Role.APPROVER,
    "second_approver": Role.APPROVER,
    "auditor": Role.AUDITOR,
    "viewer": Role.VIEWER,
}


def person(team: Team, name: str, role: Role) -> Actor:
    """Create `name@example.org` in a team."""
    email = f"{name.replace('_', '-')}@example.org"
    user = user_create(actor=system(team), email=email, role=role)
    return Actor(team=team, user=user, role=role)


def local_environment(team: Team, folder: str, name: str = "here") -> Environment:
    """Create an environment that runs on this machine in a folder."""
    return environment_create(
        actor=system(team),
        name=name,
        provider="local",
        options={"create_working_dir": True},
        manifest={"working_dir": folder, "network_policy": {"default": "allow"}},
    )


def agent_actor(
    team: Team, owner: User, *, environment: Environment, policy: str, name: str = "fix-bot"
) -> Actor:
    """Register an agent under a policy of the team, as an actor."""
    agent: AgentIdentity = agent_register(
        actor=system(team),
        name=name,
        owner=owner,
        policy=policy_for(team, policy),
        environment=environment,
    )
    return Actor(team=team, agent=agent)


@pytest.fixture
def people(db: None, tmp_path_factory: pytest.TempPathFactory) -> People:
    """The cast; the agent runs on this machine under interactive-dev."""
    team = Team.objects.create(name="Harbour")
    policies_install(team=team)
    cast = {name: person(team, name, role) for name, role in ROLES.items()}
    folder = str(tmp_path_factory.mktemp("workspace"))
    owner = cast["owner"].user
    assert owner is not None
    agent = agent_actor(
        team, owner, environment=local_environment(team, folder), policy="interactive-dev"
    )
    elsewhere = Team.objects.create(name="Elsewhere")
    policies_install(team=elsewhere)
    outsider = person(elsewhere, "outsider", Role.ADMIN)
    return People(team=team, agent=agent, outsider=outsider, **cast)


def browser_for(actor: Actor) -> Client:
    """Return a test client signed in as a person."""
    assert actor.user is not None
    client = Client()
    client.force_login(actor.user)
    return client


def bearer(actor: Actor) -> dict[str, str]:
    """Return the headers of a fresh token of an actor."""
    whose = {"agent": actor.agent} if actor.agent else {"user": actor.user}
    _, secret = token_create(actor=system(actor.team), **whose)
    return {"Authorization": f"Bearer {secret}"}
