"""How commands for scripts print: one JSON object, or lines for people."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from omniweb.accounts.models import Team
from omniweb.core.errors import OmniWebError
from omniweb.web.services import installation_prepare


class ScriptCommand(BaseCommand):
    """A command that returns facts; `--json` prints them for programs."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Every such command takes --json and --team."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--team", default="", help="the team's name; the first one without")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do the work and print what came of it; errors say what to do, without a traceback."""
        installation_prepare()
        try:
            facts = self.facts(**options | {"team": _team(options["team"])})
        except OmniWebError as error:
            raise CommandError(error.detail) from None
        if options["json"]:
            self.stdout.write(json.dumps(facts))
        else:
            width = max(map(len, facts))
            for name, value in facts.items():
                self.stdout.write(f"{name:<{width}}  {value}")

    def facts(self, *, team: Team, **options: Any) -> dict[str, Any]:
        """Do the work; return what to print."""
        raise NotImplementedError(f"{type(self).__name__} says nothing")


def _team(name: str) -> Team:
    teams = Team.objects.filter(name=name) if name else Team.objects.order_by("id")
    team = teams.first()
    if team is None:
        raise CommandError(f"There is no team named {name}")
    return team
