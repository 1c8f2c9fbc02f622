"""Writing policies over the API: checking a text before it is saved, and what a version's check says."""

from __future__ import annotations

from ninja import Schema
from pydantic import Field

from approvals.policy.check import Check, check_source
from approvals.rules import rule_rows
from approvals.selectors import version_of
from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.schemas import Body, Json, ProblemPart, Text

router = Operations(tags=["Policies"])


class CheckIn(Body):
    """A policy document as it is being written."""

    source: Text = Field(max_length=1_000_000, description="YAML or JSON as text")


class FindingOut(Schema):
    """Something that is allowed but hardly meant."""

    rule_id: str
    kind: str = Field(description="Permanent, such as `shadowed` or `too_broad`")
    level: str = Field(description="`warning` or `note`")
    message: str
    suggestion: str
    path: str
    line: int | None
    column: int | None


class KeptTestOut(Schema):
    """How a kept test came out."""

    name: str
    line: int | None
    request: Json
    expected: str
    decided: str
    holds: bool
    why: str


class RuleOut(Schema):
    """One rule as people read it; `when` and `duties` are pairs of a word and its value."""

    effect: str
    rule_id: str
    capability: str
    when: list[tuple[str, str]]
    duties: list[tuple[str, str]]
    reason: str


class CheckOut(Schema):
    """What is to be said of a document. Without rules it could not be read: `problems` say why."""

    may_be_saved: bool
    may_activate: bool = Field(description="It has no problems, and all its kept tests hold")
    problems: list[ProblemPart]
    findings: list[FindingOut]
    tests: list[KeptTestOut]
    rules: list[RuleOut]

    @classmethod
    def of(cls, check: Check) -> CheckOut:
        """Show a check."""
        rows = rule_rows(check.document) if check.document else []
        return cls.model_validate(check.to_dict() | {"rules": [vars(row) for row in rows]})


@router.operation("POST", "/policies/check", CheckOut, people=Action.VIEW)
def policy_check_view(request: Request, body: CheckIn) -> CheckOut:
    """Check a document without saving it: problems, lint, kept tests and its rules."""
    return CheckOut.of(check_source(body.source))


@router.operation(
    "GET", "/policies/{ref}/versions/{int:number}/check", CheckOut, people=Action.VIEW
)
def version_check_view(request: Request, ref: str, number: int) -> CheckOut:
    """Check a version that is saved."""
    return CheckOut.of(check_source(version_of(request.actor, ref, number).source))
