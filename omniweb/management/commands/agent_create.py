"""`manage.py agent_create NAME --owner EMAIL`: an agent with policy and environment."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from approvals.selectors import policy_for
from omniweb.accounts.models import Team
from omniweb.accounts.permissions import system
from omniweb.accounts.selectors import member_named
from omniweb.accounts.services import token_create
from omniweb.management.output import ScriptCommand
from sandboxes.selectors import environment_named
from sandboxes.services.profiles import agent_register


class Command(ScriptCommand):
    """Register an agent; print its id and a token, which is shown only now."""

    help = "Register an agent; prints its id and its first token, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the name, the owner, and what the agent runs under."""
        super().add_arguments(parser)
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="EMAIL")
        parser.add_argument("--policy", default="interactive-dev", metavar="NAME")
        parser.add_argument("--environment", default="docker", metavar="NAME")

    def facts(self, *, team: Team, **options: Any) -> dict[str, Any]:
        """Register the agent and make its token."""
        actor = system(team)
        agent = agent_register(
            actor=actor,
            name=options["name"],
            owner=member_named(team, options["owner"]),
            policy=policy_for(team, options["policy"]),
            environment=environment_named(team, options["environment"]),
        )
        _, secret = token_create(actor=actor, agent=agent, label="first")
        return {
            "id": agent.ref,
            "name": agent.name,
            "policy": options["policy"],
            "environment": options["environment"],
            "token": secret,
        }
