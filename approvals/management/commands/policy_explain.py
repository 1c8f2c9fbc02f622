"""Say what a policy decides about one request, and why."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.policy.commands.line import visible
from approvals.policy.decision import AuthorityRequest, Explanation, Part, PolicyDecision, Target
from approvals.policy.document import PolicyDocument, parse_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.profiles import profile_document
from omniweb.core.errors import InvalidInput, NotFound, OmniWebError


class Command(BaseCommand):
    """Explain one decision as text, or as JSON for scripts."""

    help = "Explain what a policy decides about a command or a request."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take one policy and one question."""
        policy = parser.add_mutually_exclusive_group(required=True)
        policy.add_argument("--policy", metavar="NAME", help="the active version of a saved policy")
        policy.add_argument("--profile", metavar="NAME", help="a built-in policy")
        policy.add_argument("--file", type=Path, metavar="DOCUMENT", help="a YAML or JSON file")
        question = parser.add_mutually_exclusive_group(required=True)
        question.add_argument("--command", metavar="TEXT", dest="text", help="a shell command")
        question.add_argument("--request", metavar="JSON", help="an authority request")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the decision and its reasons."""
        try:
            document = _document(options["policy"], options["profile"], options["file"])
            request = _request(options["text"], options["request"])
        except OmniWebError as error:
            raise CommandError(_told(error), returncode=2) from error
        decision = compile_policy(document).evaluate(request)
        if options["json"]:
            answer = {
                "policy": {"name": document.name, "digest": document.digest},
                "request": request.to_dict(),
                "decision": decision.to_dict(),
            }
            self.stdout.write(json.dumps(answer, indent=2))
            return
        for line in _story(document, decision):
            self.stdout.write(line)


def _document(policy: str | None, profile: str | None, file: Path | None) -> PolicyDocument:
    if file is not None:
        try:
            return parse_document(file.read_text(encoding="utf-8"), resolve=profile_document)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} cannot be read: {error}") from error
    if profile is not None:
        return profile_document(profile)
    # The database is needed for saved policies only, so that files can be explained without one.
    from approvals.selectors import policy_named

    return policy_named(name=policy or "").policy_document()


def _request(text: str | None, request: str | None) -> AuthorityRequest:
    if text is not None:
        return AuthorityRequest(
            capability="process.exec",
            target=Target(resource="sh"),
            execution_surface="sandbox",
            risk_level="high",
            command=("sh", "-c", text),
        )
    try:
        value = json.loads(request or "")
    except ValueError as error:
        raise InvalidInput(f"the request is not JSON: {error}") from error
    return AuthorityRequest.from_dict(value)


def _told(error: OmniWebError) -> str:
    if isinstance(error, NotFound) or not isinstance(error, InvalidInput):
        return error.detail
    return "\n".join(str(problem) for problem in error.problems)


def _story(document: PolicyDocument, decision: PolicyDecision) -> list[str]:
    explanation = decision.explanation
    lines = [
        f"{decision.effect}  ({decision.reason_code})",
        f"  {decision.reason}",
        f"  policy {document.name}, {document.mode}, digest {document.digest[:12]}",
    ]
    if decision.matched_rules:
        lines.append(f"  matched: {', '.join(decision.matched_rules)}")
    if decision.constraints.to_dict():
        lines.append(f"  constraints: {json.dumps(decision.constraints.to_dict())}")
    if explanation.parts:
        lines += ["parts:", *(f"  {_part(part)}" for part in explanation.parts)]
    return lines + _others(explanation)


def _others(explanation: Explanation) -> list[str]:
    lines = []
    if explanation.lost:
        lines += ["lost:", *(f"  {note.rule_id}: {note.why}" for note in explanation.lost)]
    if explanation.near_misses:
        lines.append("near misses:")
        lines += [f"  {note.rule_id}: {note.why}" for note in explanation.near_misses]
    return lines


def _part(part: Part) -> str:
    through = f" (through {', '.join(part.reached)})" if part.reached else ""
    rule = f" by {part.rule_id}" if part.rule_id else ""
    why = f": {part.why}" if part.why else ""
    return f"{part.effect or 'unknown'}  {visible(part.text)}{through}{rule}{why}"
