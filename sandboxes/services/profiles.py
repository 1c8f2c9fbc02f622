"""Choosing under which policy and where an agent runs."""

from __future__ import annotations

from django.db import transaction

from approvals.models import Policy
from omniweb.accounts.models import AgentIdentity, User
from omniweb.accounts.permissions import Action, Actor
from omniweb.accounts.services import agent_create
from omniweb.core.audit import audit_write
from sandboxes.models import Environment, Profile


def agent_register(
    *, actor: Actor, name: str, owner: User, policy: Policy, environment: Environment
) -> AgentIdentity:
    """Register an agent with its profile; raises as `agent_create` does."""
    with transaction.atomic():
        agent = agent_create(actor=actor, name=name, owner=owner)
        profile_set(actor=actor, agent=agent, policy=policy, environment=environment)
    return agent


def profile_set(
    *, actor: Actor, agent: AgentIdentity, policy: Policy, environment: Environment
) -> Profile:
    """Choose policy and environment for the runs an agent opens from now on."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        profile, _ = Profile.objects.update_or_create(
            agent=agent, defaults={"policy": policy, "environment": environment}
        )
        audit_write(
            actor=actor,
            act="agent.profile",
            subject=agent,
            policy=policy.name,
            environment=environment.name,
        )
    return profile
