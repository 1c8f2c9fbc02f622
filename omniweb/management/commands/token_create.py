"""`manage.py token_create (EMAIL|AGENT)`: a bearer token."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import TokenScope, system
from omniweb.accounts.selectors import agent_named, member_named
from omniweb.accounts.services import token_create
from omniweb.management.output import ScriptCommand


class Command(ScriptCommand):
    """Create a token for a person or an agent; the secret is shown only now."""

    help = "Create a token for a person (by address) or an agent (by name); printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the holder and the scopes."""
        super().add_arguments(parser)
        parser.add_argument("holder", metavar="EMAIL|AGENT")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=[scope.value for scope in TokenScope],
            help="repeatable; without one, everything the holder may do",
        )
        parser.add_argument("--label", default="")

    def facts(self, *, team: Team, **options: Any) -> dict[str, Any]:
        """Create the token."""
        holder = options["holder"]
        whose: dict[str, Any] = (
            {"user": member_named(team, holder)}
            if "@" in holder
            else {"agent": agent_named(team, holder)}
        )
        token, secret = token_create(
            actor=system(team), scopes=options["scope"], label=options["label"], **whose
        )
        return {"id": token.ref, "holder": holder, "scopes": token.scopes, "token": secret}
