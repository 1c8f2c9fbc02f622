"""A check of a document as a page shows it: marks with their lines, kept tests, and the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from approvals.lens import Lens, command_lens
from approvals.policy.check import check_source
from approvals.policy.decision import PolicyDecision
from approvals.policy.evaluator import CompiledPolicy
from approvals.policy.kept import KeptResult
from approvals.policy.lint import Finding
from approvals.questions import of_command
from approvals.rules import RuleRow, rule_rows
from omniweb.core.errors import Problem


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something to say of a place in the text: `tone` is bad, wait or plain."""

    tone: str
    text: str
    suggestion: str
    line: int | None
    column: int | None
    excerpt: str = ""
    rule_id: str = ""
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the text decides on a command."""

    decision: PolicyDecision
    lens: Lens


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Everything beside the text. `rules` is None while the text cannot be read.

    `asked` is the answer to a command, None when none was asked or nothing could answer.
    """

    problems: list[Mark]
    findings: list[Mark]
    tests: list[KeptResult]
    rules: list[RuleRow] | None
    may_activate: bool
    asked: Asked | None = None

    @property
    def failing(self) -> list[KeptResult]:
        """The kept tests that do not hold."""
        return [test for test in self.tests if not test.holds]

    @property
    def warnings(self) -> list[Mark]:
        """The findings that are worth a change."""
        return [mark for mark in self.findings if mark.tone == "wait"]

    @property
    def notes(self) -> list[Mark]:
        """The findings that are only worth knowing."""
        return [mark for mark in self.findings if mark.tone == "plain"]


def checked(text: str, command: str = "") -> Checked:
    """Return what to show beside a text, with what it decides on a command."""
    check = check_source(text)
    lines = text.splitlines()
    return Checked(
        problems=[_problem(problem, lines) for problem in check.problems],
        findings=[_finding(finding) for finding in check.findings],
        # What fails comes first.
        tests=sorted(check.tests, key=lambda test: test.holds),
        rules=rule_rows(check.document) if check.document else None,
        may_activate=check.may_activate,
        asked=_asked(check.policy, command) if check.policy and command.strip() else None,
    )


def _asked(policy: CompiledPolicy, command: str) -> Asked:
    request = of_command(command)
    decision = policy.evaluate(request)
    parts = decision.explanation.to_dict()["parts"]
    return Asked(decision=decision, lens=command_lens(request.command or (), command, parts))


def _problem(problem: Problem, lines: Sequence[str]) -> Mark:
    is_inside = problem.line is not None and 0 < problem.line <= len(lines)
    return Mark(
        tone="bad",
        text=problem.message,
        suggestion=problem.suggestion,
        line=problem.line,
        column=problem.column,
        excerpt=lines[problem.line - 1].strip() if is_inside and problem.line else "",
    )


def _finding(finding: Finding) -> Mark:
    return Mark(
        tone="plain" if finding.kind.is_note else "wait",
        text=finding.message,
        suggestion=finding.suggestion,
        line=finding.line,
        column=finding.column,
        rule_id=finding.rule_id,
        kind=finding.kind.words,
    )
