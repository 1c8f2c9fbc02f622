"""Preparing and sending off the demo agent: its policy, its place, its identity, its token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings

from approvals.models import Policy
from approvals.services.policies import policy_create
from omniweb.accounts.models import AgentIdentity, Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.accounts.services import token_create, token_revoke
from omniweb.core.clock import now
from omniweb.core.errors import OmniWebError
from omniweb.web.demo_agent import PATIENCE_SECONDS, DemoAgent, Errand, Tell, demo_client
from sandboxes.models import Environment
from sandboxes.providers.registry import open_provider
from sandboxes.services.environments import environment_create
from sandboxes.services.profiles import agent_register, profile_set

NAME = "demo"
AGENT = "demo-agent"

POLICY = """\
name: demo
# What no rule speaks of, a person decides.
mode: interactive
rules:
  deny:
    - rule_id: deny_deleting
      capability: process.exec
      command: {program: rm}
      reason: Nothing is deleted in the demo.
  ask:
    - rule_id: ask_release
      capability: process.exec
      command: {prefix: [sh, release.sh]}
      reason: Releasing needs a person.
    - rule_id: ask_publishing
      capability: process.exec
      command: {prefix: [git, push]}
      reason: Publishing needs a person.
    - rule_id: ask_installing
      capability: process.exec
      command: {program: [pip, pip3]}
      reason: Installing packages needs a person.
    - rule_id: ask_sandbox_network
      capability: sandbox.network.configure
      conditions: {execution_surface: sandbox}
      reason: Turning the sandbox network on needs approval.
    - rule_id: ask_variables
      capability: sandbox.environment.set
      reason: A person looks at what commands are given.
  allow:
    - rule_id: allow_looking
      capability: process.exec
      command: {program: [cat, id, ls, printenv, tee, uname, wc]}
    - rule_id: allow_sandbox_setup
      capability: "sandbox.*"
    - rule_id: allow_own_files
      capability: "workspace.*"
"""

# In a sandbox the demo asks for the network; this machine has it anyway, so there it asks to set a
# variable.
IN_A_SANDBOX = Errand(
    title="Find a way out",
    manifest={"network_policy": {"default": "allow"}},
    intent="I need the network, and look for the way out.",
    command="cat /proc/net/route",
)
ON_THIS_MACHINE = Errand(
    title="Choose a channel",
    manifest={"environment": {"plain": {"CHANNEL": "stable"}}},
    intent="My commands need to know the channel.",
    command="printenv CHANNEL",
)


@dataclass(frozen=True, kw_only=True)
class Demo:
    """An agent that is ready to go, and the secret of its token, which is kept nowhere."""

    agent: AgentIdentity
    environment: Environment
    secret: str

    @property
    def errand(self) -> Errand:
        """What it asks for besides commands, where it runs."""
        return ON_THIS_MACHINE if self.environment.provider == "local" else IN_A_SANDBOX


def demo_place(team: Team) -> str:
    """Return the provider the demo would run on here: `docker`, or else `local`."""
    return "docker" if _docker(team) else "local"


@contextmanager
def demo_prepare(*, actor: Actor, provider: str = "") -> Iterator[Demo]:
    """Yield the demo agent with a fresh token, which ends with the block.

    It runs on a provider that is named, or on what there is. Makes its policy and its environment
    where they are missing; a second demo uses them again. Raises NotPermitted for a person who may
    not configure.
    """
    actor.require(Action.CONFIGURE)
    environment = _hosted(actor, provider) if provider else _docker(actor.team) or _here(actor)
    agent = _agent(actor, _policy(actor), environment)
    token, secret = token_create(
        actor=actor,
        agent=agent,
        label="demo",
        # It may wait for people twice, and needs a moment for the rest.
        expires_at=now() + timedelta(seconds=2 * PATIENCE_SECONDS + 600),
    )
    try:
        yield Demo(agent=agent, environment=environment, secret=secret)
    finally:
        token_revoke(actor=actor, token=token)


def demo_run(*, actor: Actor, url: str, tell: Tell, provider: str = "") -> None:
    """Play the demo against the server at `url`, until people have decided or patience ends.

    Raises httpx.HTTPError when the server cannot be reached or refuses.
    """
    with (
        demo_prepare(actor=actor, provider=provider) as demo,
        demo_client(url, demo.secret) as client,
    ):
        tell(f"{demo.agent.name} runs on {demo.environment.provider}")
        DemoAgent(client, tell).work(demo.errand)


def _policy(actor: Actor) -> Policy:
    found = Policy.objects.filter(team=actor.team, name=NAME, active_version__isnull=False).first()
    return found or policy_create(
        actor=actor, name=NAME, source=POLICY, note="Made for the demo agent"
    )


def _docker(team: Team) -> Environment | None:
    """Return the team's Docker environment if its image could run here and now."""
    environment = Environment.objects.filter(
        team=team, name="docker", provider="docker", is_enabled=True
    ).first()
    if environment is None:
        return None
    try:
        open_provider("docker", environment.options).check()
        return environment if _has_image(environment.options) else None
    except OmniWebError:
        return None


def _has_image(options: dict[str, Any]) -> bool:
    # Imports the Docker SDK, which is an extra; open_provider has said by now that it is there.
    from sandboxes.providers.engine import client, engine_errors

    with engine_errors():
        return bool(client().images(name=options.get("image"), quiet=True))


def _hosted(actor: Actor, provider: str) -> Environment:
    found = Environment.objects.filter(team=actor.team, name=provider, provider=provider).first()
    return found or environment_create(
        actor=actor, name=provider, provider=provider, options={}, manifest={}
    )


def _here(actor: Actor) -> Environment:
    found = Environment.objects.filter(team=actor.team, name=NAME, provider="local").first()
    return found or environment_create(
        actor=actor,
        name=NAME,
        provider="local",
        options={"create_working_dir": True},
        manifest={
            "working_dir": str(settings.DATA_DIR / NAME),
            "network_policy": {"default": "allow"},
        },
    )


def _agent(actor: Actor, policy: Policy, environment: Environment) -> AgentIdentity:
    agent = AgentIdentity.objects.filter(team=actor.team, name=AGENT).first()
    if agent is None:
        assert actor.user is not None  # noqa: S101 - `require` let only a person through
        return agent_register(
            actor=actor, name=AGENT, owner=actor.user, policy=policy, environment=environment
        )
    profile_set(actor=actor, agent=agent, policy=policy, environment=environment)
    return agent
