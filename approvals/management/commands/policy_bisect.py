"""Say which version of a policy changed the answer to one question."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.bisect import Answer, answers
from approvals.models import Decision
from approvals.policy.decision import AuthorityRequest
from approvals.policy.simulate import recorded_request
from approvals.questions import of_command, of_json
from approvals.selectors import policy_named, versions_asked
from omniweb.core.errors import InvalidInput, OmniWebError


class Command(BaseCommand):
    """Ask every version of a policy the same, as text or as JSON for scripts."""

    help = "Show which version of a policy changed its answer to a command, request or decision."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a policy and one question."""
        parser.add_argument("--policy", metavar="NAME", help="not needed with --decision")
        question = parser.add_mutually_exclusive_group(required=True)
        question.add_argument("--command", metavar="TEXT", dest="text", help="a shell command")
        question.add_argument("--request", metavar="JSON", help="an authority request")
        question.add_argument("--decision", metavar="ID", help="what was asked in a decision")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what each version says, oldest first, and mark the changes."""
        try:
            told = _answers(options)
        except OmniWebError as error:
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps([_dict(one) for one in told], indent=2))
            return
        for one in told:
            mark = "*" if one.is_change else " "
            line = f"{mark} {one.version.number:>4}  {one.effect or 'unreadable':5}  {one.by}"
            self.stdout.write(line.rstrip())


def _answers(options: dict[str, Any]) -> list[Answer]:
    if options["decision"]:
        decision = Decision.objects.select_related("version__policy").by_ref(options["decision"])
        request = recorded_request(json.dumps(decision.authority_request))
        if request is None:
            raise InvalidInput("A secret in it was masked, so it cannot be asked again")
        policy = decision.version.policy
    else:
        if not options["policy"]:
            raise InvalidInput("Say which policy with --policy NAME")
        policy = policy_named(name=options["policy"]).policy
        request = _request(options["text"], options["request"])
    return answers(versions_asked(policy), request)


def _request(text: str | None, request: str | None) -> AuthorityRequest:
    return of_json(request or "") if text is None else of_command(text)


def _dict(one: Answer) -> dict[str, Any]:
    return {
        "version": one.version.number,
        "effect": one.effect or None,
        "by": one.by,
        "reason": one.reason,
        "is_change": one.is_change,
    }
