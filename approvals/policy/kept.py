"""Kept tests: cases a policy carries with it, each a request and the effect it must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from approvals.policy.commands.parse import read_command
from approvals.policy.decision import AuthorityRequest, Effect, PolicyDecision
from approvals.policy.evaluator import CompiledPolicy
from approvals.policy.source import Source
from omniweb.core.errors import Problem

NO_SOURCE = Source(None)


@dataclass(frozen=True, kw_only=True)
class KeptResult:
    """How one kept test came out; `line` is where it stands in the document."""

    at: int
    name: str
    request: AuthorityRequest
    expected: Effect
    decision: PolicyDecision
    line: int | None = None

    @property
    def holds(self) -> bool:
        """Whether the policy decides what the test expects."""
        return self.decision.effect is self.expected

    @property
    def decided(self) -> Effect:
        """What the policy decides."""
        return self.decision.effect

    @property
    def why(self) -> str:
        """The reason of the decision, with the rules it rests on."""
        rules = ", ".join(self.decision.matched_rules)
        return f"{self.decision.reason} ({rules})" if rules else self.decision.reason

    def problem(self) -> Problem:
        """Return the failure as a problem of the document."""
        return Problem(
            message=(
                f"kept test '{self.name}' expects {self.expected}, "
                f"but the policy decides {self.decided}: {self.why}"
            ),
            path=f"tests[{self.at}]",
            line=self.line,
            suggestion="change the rules or the test, or save it as a draft",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "name": self.name,
            "line": self.line,
            "request": self.request.to_dict(),
            "expected": self.expected,
            "decided": self.decided,
            "holds": self.holds,
            "why": self.why,
        }


def kept_results(policy: CompiledPolicy, source: Source = NO_SOURCE) -> tuple[KeptResult, ...]:
    """Run every kept test of a policy, in document order."""
    results = []
    for at, test in enumerate(policy.document.tests):
        request = AuthorityRequest.from_dict(test.request)
        results.append(
            KeptResult(
                at=at,
                name=test.name or request_words(request),
                request=request,
                expected=Effect(test.expect),
                decision=policy.evaluate(request),
                line=source.position(("tests", at))[0],
            )
        )
    return tuple(results)


def request_words(request: AuthorityRequest) -> str:
    """Return a request as people call it: its command line, or what it is about."""
    if request.command:
        return read_command(request.command).text
    target = request.target
    parts = (target.path, target.host, target.resource, target.tool_name) if target else ()
    about = next(filter(None, (*parts, request.host, request.mcp_server)), "")
    return f"{request.capability} {about}".strip()
