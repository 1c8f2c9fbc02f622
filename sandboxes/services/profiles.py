"""Choosing under which policy and where an agent runs."""

from __future__ import annotations

from django.db import transaction

from approvals.models import Policy
from omniweb.accounts.models import AgentIdentity, User
from omniweb.accounts.permissions import Action, Actor
from omniweb.accounts.services import agent_create
from omniweb.core.audit import audit_write
from omniweb.core.errors import Conflict
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
    """Choose policy and environment for the runs an agent opens from now on.

    Raises Conflict for a policy that is archived.
    """
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        # Excludes whoever is archiving it.
        policy = Policy.objects.select_for_update().get(pk=policy.pk)
        if policy.archived_at is not None:
            raise Conflict(f"The policy {policy} is archived: choose another, or restore it")
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
