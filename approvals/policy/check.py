"""A document as its author sees it while writing: what is wrong, what to look at, what its tests say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from approvals.policy.document import PolicyDocument, Resolve, read_document
from approvals.policy.evaluator import CompiledPolicy, compile_policy
from approvals.policy.kept import KeptResult, kept_results
from approvals.policy.lint import Finding, lint_document
from omniweb.core.errors import InvalidInput, Problem


@dataclass(frozen=True, kw_only=True)
class Check:
    """What is to be said of a text. Without a `policy` it could not be read: see `problems`."""

    problems: tuple[Problem, ...] = ()
    policy: CompiledPolicy | None = None
    findings: tuple[Finding, ...] = ()
    tests: tuple[KeptResult, ...] = ()

    @property
    def document(self) -> PolicyDocument | None:
        """The document, if it could be read."""
        return self.policy.document if self.policy else None

    @property
    def failing(self) -> tuple[KeptResult, ...]:
        """The kept tests that do not hold."""
        return tuple(test for test in self.tests if not test.holds)

    @property
    def may_activate(self) -> bool:
        """Whether a version of this text may decide."""
        return not self.problems and not self.failing

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON, without the document."""
        return {
            "may_be_saved": not self.problems,
            "may_activate": self.may_activate,
            "problems": [problem.to_dict() for problem in self.problems],
            "findings": [finding.to_dict() for finding in self.findings],
            "tests": [test.to_dict() for test in self.tests],
        }


def check_source(text: str, *, resolve: Resolve | None = None) -> Check:
    """Check a document's text; never raises for what is wrong with it."""
    try:
        document, source = read_document(text, resolve=resolve)
        policy = compile_policy(document)
    except InvalidInput as error:
        return Check(problems=error.problems)
    return Check(
        policy=policy,
        findings=lint_document(document, source),
        tests=kept_results(policy, source),
    )


def activation_problems(text: str) -> tuple[Problem, ...]:
    """Return what keeps a version of this text from becoming active: faults, or kept tests that fail."""
    try:
        document, source = read_document(text)
        results = kept_results(compile_policy(document), source)
    except InvalidInput as error:
        return error.problems
    return tuple(test.problem() for test in results if not test.holds)
