"""Writing policies over the API: checking a text before it is saved, and what a version's check says."""

from __future__ import annotations

from typing import Literal

from ninja import Query, Schema
from pydantic import Field

from approvals.api.policies import PolicyOut
from approvals.policy.check import Check, check_source
from approvals.policy.decision import AuthorityRequest
from approvals.policy.diff import policy_changes
from approvals.policy.exchange import Format, exported
from approvals.policy.textdiff import text_diff
from approvals.policy.vocabulary import vocabulary
from approvals.questions import question
from approvals.rules import rule_rows
from approvals.selectors import policies_visible, version_of, versions_compared
from approvals.services.policies import policy_archive, policy_restore
from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.schemas import Body, Json, ProblemPart, Text

router = Operations(tags=["Policies"])


class CheckIn(Body):
    """A policy document as it is being written."""

    source: Text = Field(max_length=1_000_000, description="YAML or JSON as text")
    command: Text | list[Text] | None = Field(
        None, description="To be decided by the document: a shell line, or the words of a command"
    )
    request: Json | None = Field(None, description="The same with a whole authority request")


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
    decision: Json | None = Field(None, description="On the command or request that was sent along")

    @classmethod
    def of(cls, check: Check, asked: AuthorityRequest | None = None) -> CheckOut:
        """Show a check, with the decision on what is asked."""
        rows = rule_rows(check.document) if check.document else []
        decision = check.policy.evaluate(asked).to_dict() if check.policy and asked else None
        shown = {"rules": [vars(row) for row in rows], "decision": decision}
        return cls.model_validate(check.to_dict() | shown)


@router.operation("POST", "/policies/check", CheckOut, people=Action.VIEW)
def policy_check_view(request: Request, body: CheckIn) -> CheckOut:
    """Check a document without saving it: problems, lint, kept tests, rules, and what it decides."""
    is_asked = body.command is not None or body.request is not None
    asked = question(body.command, body.request) if is_asked else None
    return CheckOut.of(check_source(body.source), asked)


@router.operation(
    "GET", "/policies/{ref}/versions/{int:number}/check", CheckOut, people=Action.VIEW
)
def version_check_view(request: Request, ref: str, number: int) -> CheckOut:
    """Check a version that is saved."""
    return CheckOut.of(check_source(version_of(request.actor, ref, number).source))


class DiffQuery(Schema):
    """Which versions to compare."""

    before: int | None = Field(
        None, alias="from", ge=1, le=2_000_000_000, description="By default the one before"
    )
    after: int | None = Field(
        None, alias="to", ge=1, le=2_000_000_000, description="By default the newest"
    )


class PartChangeOut(Schema):
    """A part that differs; empty where it is not there."""

    name: str
    before: str
    after: str


class RuleChangeOut(Schema):
    """A rule that differs."""

    kind: str = Field(description="`added`, `removed` or `changed`")
    rule_id: str
    before: str | None = Field(description="The effect it had")
    after: str | None = Field(description="The effect it has")
    parts: list[PartChangeOut]


class FlipOut(Schema):
    """A request, known by a kept test or an example, that is decided otherwise."""

    name: str
    request: Json
    before: str
    before_rules: list[str]
    after: str
    after_rules: list[str]
    loosened: bool


class DiffLineOut(Schema):
    """A line of the text: `same`, `add`, `del`, or `gap` for lines left out."""

    kind: str
    before: int | None
    after: int | None
    text: str


class DiffOut(Schema):
    """What changes between two versions; flips come deny to allow first."""

    whole: list[PartChangeOut]
    rules: list[RuleChangeOut]
    asked: int = Field(description="How many known requests both versions were asked")
    flips: list[FlipOut]
    text: list[DiffLineOut]


@router.operation("GET", "/policies/{ref}/diff", DiffOut, people=Action.VIEW)
def policy_diff_view(request: Request, ref: str, versions: Query[DiffQuery]) -> DiffOut:
    """Compare two versions of a policy, in text and in meaning."""
    before, after = versions_compared(request.actor, ref, versions.before, versions.after)
    changes = policy_changes(before.compiled(), after.compiled())
    return DiffOut.model_validate(
        {
            "whole": [part.to_dict() for part in changes.whole],
            "rules": [rule.to_dict() for rule in changes.rules],
            "asked": changes.asked,
            "flips": [flip.to_dict() for flip in changes.flips],
            "text": [line._asdict() for line in text_diff(before.source, after.source)],
        }
    )


@router.operation("POST", "/policies/{ref}/archive", PolicyOut, people=Action.CONFIGURE)
def policy_archive_view(request: Request, ref: str) -> PolicyOut:
    """Take a policy out of the lists; refused while agents run under it."""
    policy_archive(actor=request.actor, policy=policies_visible(request.actor).by_ref(ref))
    return PolicyOut.of(policies_visible(request.actor).by_ref(ref))


@router.operation("POST", "/policies/{ref}/restore", PolicyOut, people=Action.CONFIGURE)
def policy_restore_view(request: Request, ref: str) -> PolicyOut:
    """Take a policy back out of the archive."""
    policy_restore(actor=request.actor, policy=policies_visible(request.actor).by_ref(ref))
    return PolicyOut.of(policies_visible(request.actor).by_ref(ref))


class Vocabulary(Schema):
    """What a document may say: by key `about`, and `values` or further `keys`."""

    keys: Json


class ExportQuery(Schema):
    """As what to take a version away."""

    form: Format = Field("yaml", alias="as")
    reader: Literal["omniweb", "omnicoreagent"] = Field(
        "omniweb", alias="for", description="`omnicoreagent` leaves out what only OmniWeb reads"
    )


class ExportOut(Schema):
    """A policy document as text."""

    source: str


@router.operation(
    "GET", "/policies/{ref}/versions/{int:number}/export", ExportOut, people=Action.VIEW
)
def version_export_view(
    request: Request, ref: str, number: int, wanted: Query[ExportQuery]
) -> ExportOut:
    """Take a version away as YAML or JSON, perhaps in the peer's format."""
    document = version_of(request.actor, ref, number).policy_document()
    is_peer = wanted.reader == "omnicoreagent"
    return ExportOut(source=exported(document, wanted.form, for_peer=is_peer))


@router.operation("GET", "/policies/vocabulary", Vocabulary, people=Action.VIEW)
def policy_vocabulary_view(request: Request) -> Vocabulary:
    """Get the keys a document may have, what each is for, and the values it takes."""
    return Vocabulary(keys=dict(vocabulary()))
