"""The policy document: its schema, reading it from text, its digest, and writing it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from approvals.policy.checks import document_problems
from approvals.policy.decision import Effect
from approvals.policy.shape import shape_problems
from approvals.policy.source import Source, read_source
from approvals.policy.writing import written
from omniweb.core.canonical import digest
from omniweb.core.errors import InvalidInput, Problem

type Mode = Literal["permissive", "interactive", "strict"]
type Scope = Literal["once", "run", "minutes", "rule"]
type Resolve = Callable[[str], PolicyDocument]

MODES: tuple[Mode, ...] = ("permissive", "interactive", "strict")


def _as_text(value: Any) -> Any:
    # `version: 1` is how people write it in YAML.
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, Field(min_length=1, max_length=2_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Positive = Annotated[int, Field(ge=1)]
Words = tuple[str | tuple[str, ...], ...]


class Part(BaseModel):
    """A piece of the document: frozen, strict about types, and refusing keys it does not know."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, str_strip_whitespace=True, allow_inf_nan=False
    )


def _listed(value: Any) -> Any:
    """Let a strict tuple be read from the list YAML and JSON give."""
    if isinstance(value, list):
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    return value


Names = Annotated[tuple[Name, ...], BeforeValidator(_listed)]
CommandWords = Annotated[Words, BeforeValidator(_listed)]


def _as_list(value: Any) -> Any:
    return (value,) if isinstance(value, str) else _listed(value)


class TargetMatcher(Part):
    """Globs over the parts of a request's target."""

    path: str | None = None
    host: str | None = None
    resource: str | None = None
    tool_name: str | None = None
    mcp_server: str | None = None


class Conditions(Part):
    """What else must hold of a request; `matching` says how each compares."""

    risk_level: Names = ()
    data_classes: Names = ()
    provider: str | None = None
    execution_surface: str | None = None
    exclude_execution_surface: Names = ()
    exclude_capability: Names = ()
    mcp_server: str | None = None
    method: str | None = None
    host: str | None = None


class ApprovalsRule(Part):
    """Who must agree to what this rule asks about; times in seconds."""

    count: Annotated[int, Field(ge=1, le=20)] = 1
    roles: Names = ()
    exclude_requester: bool = False
    exclude_owner: bool = False
    escalate_after_seconds: Positive | None = None
    at_expiry: Literal["deny", "allow"] = "deny"


class ConstraintsRule(Part):
    """The obligations a rule puts on what it decides."""

    sandbox_required: bool = False
    audit_required: bool = False
    strict_telemetry: bool = False
    approval_expires_seconds: Positive | None = None
    approvals: ApprovalsRule | None = None
    scopes: Annotated[tuple[Scope, ...], BeforeValidator(_listed)] = ()
    metadata: dict[str, Any] = {}


class CommandMatcher(Part):
    """The first words of a command: literal, or lists of alternatives.

    In an allow rule, `writes` are globs of the files its output may go to, `env` of the variables
    that may be set for it.
    """

    prefix: CommandWords = ()
    program: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    writes: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()
    env: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The prefix as one set of alternatives per word; `program` is a prefix of one word."""
        if self.program:
            return (self.program,)
        return tuple((word,) if isinstance(word, str) else word for word in self.prefix)


class Examples(Part):
    """Commands the rule must and must not match, checked when the policy loads."""

    match: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    not_match: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()


class Rule(Part):
    """One rule of a bucket."""

    rule_id: Name
    capability: Name
    effect: Literal["allow", "ask", "deny"] | None = None
    target: TargetMatcher | None = None
    conditions: Conditions | None = None
    constraints: ConstraintsRule = ConstraintsRule()
    command: CommandMatcher | None = None
    examples: Examples | None = None
    reason: str | None = None
    metadata: dict[str, Any] = {}


Rules = Annotated[tuple[Rule, ...], BeforeValidator(_listed)]


class Buckets(Part):
    """The rules by what they say; order inside a bucket decides nothing."""

    deny: Rules = ()
    ask: Rules = ()
    allow: Rules = ()


class LegacyBudget(Part):
    """In-process counters of older documents."""

    max_requests: Annotated[int, Field(ge=0)] | None = None
    max_cost: Annotated[float, Field(ge=0, strict=False)] | None = None
    used_requests: Annotated[int, Field(ge=0)] = 0
    used_cost: Annotated[float, Field(ge=0, strict=False)] = 0
    count_failed_attempts: bool = False

    @property
    def exhausted(self) -> bool:
        """Whether the counters the document carries leave nothing to spend."""
        requests = self.max_requests is not None and self.used_requests >= self.max_requests
        return requests or (self.max_cost is not None and self.used_cost >= self.max_cost)


BudgetList = Annotated[tuple[dict[str, Any], ...], BeforeValidator(_listed)]


class Budgets(Part):
    """Spending limits per scope; their entries are read where they are enforced."""

    application_id: str | None = None
    request: BudgetList = ()
    session: BudgetList = ()
    agent: BudgetList = ()
    application: BudgetList = ()


class KeptTest(Part):
    """A case kept with the policy: a request and the effect it must have."""

    name: str | None = None
    request: dict[str, Any]
    expect: Literal["allow", "ask", "deny"]


class PolicyDocument(Part):
    """One version of a policy. `extends` is gone once the parent's rules are in."""

    version: Annotated[Text, BeforeValidator(_as_text)] = "1"
    name: Name = "default-policy"
    mode: Mode = "interactive"
    rules: Buckets = Buckets()
    extends: Name | None = None
    policy_id: str | None = None
    policy_id_supplied: bool = False
    profile: str | None = None
    provenance: dict[str, Any] | None = None
    budget: LegacyBudget | None = None
    budgets: Budgets | None = None
    tests: Annotated[tuple[KeptTest, ...], BeforeValidator(_listed)] = ()
    metadata: dict[str, Any] = {}

    def each_rule(self) -> Iterator[tuple[Effect, int, Rule]]:
        """Yield every rule with its bucket and its place in it, deny first."""
        for effect in (Effect.DENY, Effect.ASK, Effect.ALLOW):
            for at, rule in enumerate(getattr(self.rules, effect)):
                yield effect, at, rule

    def to_dict(self) -> dict[str, Any]:
        """Return the document as JSON, without what is empty or at its default."""
        plain = self.model_dump(mode="json", exclude_defaults=True)
        stated = {"version": self.version, "name": self.name, "mode": self.mode}
        said: dict[str, Any] = _without_empty(stated | plain)
        return said

    @cached_property
    def digest(self) -> str:
        """SHA-256 over what the document says; where it came from does not change it."""
        said = self.to_dict()
        for bookkeeping in ("policy_id", "policy_id_supplied", "provenance"):
            said.pop(bookkeeping, None)
        return digest(said)


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


class Reading(NamedTuple):
    """A document with the places of its parts in the text it was read from."""

    document: PolicyDocument
    source: Source


def read_document(text: str, *, resolve: Resolve | None = None) -> Reading:
    """Read a policy from YAML or JSON text, keeping where each part stands.

    `resolve` finds the policy named by `extends`. Raises InvalidInput with every problem found,
    each with line, column, path and, where one is near, a suggestion.
    """
    source = read_source(text)
    return Reading(_load(source, resolve), source)


def parse_document(text: str, *, resolve: Resolve | None = None) -> PolicyDocument:
    """Read a policy from YAML or JSON text; as `read_document`, without the places."""
    return read_document(text, resolve=resolve).document


def load_document(value: Mapping[str, Any], *, resolve: Resolve | None = None) -> PolicyDocument:
    """Read a policy from an already decoded object; raises InvalidInput with paths only."""
    return _load(Source(value), resolve)


def _load(source: Source, resolve: Resolve | None) -> PolicyDocument:
    if not isinstance(source.value, Mapping):
        found = Problem(message="a policy is an object with name, mode and rules", line=1, column=1)
        raise InvalidInput(problems=[found])
    try:
        document = PolicyDocument.model_validate(source.value)
    except ValidationError as error:
        raise InvalidInput(problems=shape_problems(error, source, PolicyDocument)) from error
    problems = document_problems(document, source)
    if problems:
        raise InvalidInput(problems=problems)
    return _extended(document, source, resolve) if document.extends else document


def _extended(document: PolicyDocument, source: Source, resolve: Resolve | None) -> PolicyDocument:
    """Return the document with its parent's rules before its own, as one document."""
    line, column = source.position(("extends",))
    if resolve is None:
        found = Problem(
            message=f"extends '{document.extends}' cannot be looked up here",
            path="extends",
            line=line,
            column=column,
            suggestion="save it as a version of a policy, or copy the parent's rules in",
        )
        raise InvalidInput(problems=[found])
    parent = resolve(document.extends or "")
    own = {rule.rule_id for _, _, rule in document.each_rule()}
    twice = [rule.rule_id for _, _, rule in parent.each_rule() if rule.rule_id in own]
    if twice:
        found = Problem(
            message=f"Duplicate policy rule_id: {twice[0]}",
            path="extends",
            line=line,
            column=column,
            suggestion=f"'{parent.name}' already has this rule; give yours another id",
        )
        raise InvalidInput(problems=[found])
    merged = {
        bucket: getattr(parent.rules, bucket) + getattr(document.rules, bucket) for bucket in Effect
    }
    inherited = {} if "mode" in document.model_fields_set else {"mode": parent.mode}
    return document.model_copy(
        update={"extends": None, "rules": Buckets.model_validate(merged), **inherited}
    )


def document_source(document: PolicyDocument) -> str:
    """Return the document as YAML text, to show or to start a copy from."""
    return written(document.to_dict())
