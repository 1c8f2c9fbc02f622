"""What a policy is asked and what it answers: requests, constraints and decisions, as frozen values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Literal

from approvals.policy.capabilities import RISK_LEVELS
from omniweb.core.errors import InvalidInput, Problem


class Effect(StrEnum):
    """What a rule or a decision says, from the loosest to the strictest."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Rank for comparisons: allow 0, ask 1, deny 2."""
        return list(Effect).index(self)


class ReasonCode(StrEnum):
    """Why a decision came out as it did; permanent, clients match on them."""

    MATCHED_ALLOW = "matched_allow"
    MATCHED_ASK = "matched_ask"
    MATCHED_DENY = "matched_deny"
    COMMAND_OPAQUE = "command_opaque"
    UNKNOWN_CAPABILITY = "unknown_capability"
    BUDGET_EXCEEDED = "budget_exceeded"
    POLICY_ERROR = "policy_error"
    SANDBOX_REQUIRED = "sandbox_required"


@dataclass(frozen=True, slots=True)
class Target:
    """The thing a request is about; empty where the capability has no such part."""

    path: str | None = None
    host: str | None = None
    resource: str | None = None
    tool_name: str | None = None
    mcp_server: str | None = None


@dataclass(frozen=True, slots=True)
class AuthorityRequest:
    """One question to a policy. `command` is the argv of a process, `target` what is touched."""

    capability: str
    actor: str = "agent"
    target: Target | None = field(default_factory=Target)
    provider: str | None = None
    execution_surface: str | None = None
    risk_level: str = "low"
    data_classes: tuple[str, ...] = ()
    method: str | None = None
    host: str | None = None
    mcp_server: str | None = None
    command: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON, without what it does not carry."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values |= {"data_classes": list(self.data_classes), "metadata": dict(self.metadata)}
        # An empty target and an empty command say something; the other empty values do not.
        said = {name: value for name, value in values.items() if value not in (None, [], {})}
        if self.target is not None:
            said["target"] = _present(self.target)
        if self.command is not None:
            said["command"] = list(self.command)
        return said

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> AuthorityRequest:
        """Read a request from JSON; raises InvalidInput naming each wrong field."""
        problems = list(_request_problems(value))
        if problems:
            raise InvalidInput(problems=problems)
        given = {name: item for name, item in value.items() if item is not None}
        # Not given and empty differ: a rule on a target's path never meets a request without one.
        target = given.pop("target", None)
        for name in ("data_classes", "command"):
            if name in given:
                given[name] = tuple(given[name])
        return cls(target=None if target is None else Target(**target), **given)


_TEXTS = ("capability", "actor", "provider", "execution_surface", "method", "host", "mcp_server")


def _request_problems(value: Any) -> Iterable[Problem]:
    if not isinstance(value, Mapping):
        yield Problem(message="a request is an object with at least a capability")
        return
    known = {item.name for item in fields(AuthorityRequest)}
    for name in sorted(set(value) - known, key=str):
        yield Problem(message=f"unknown request field '{name}'", path=str(name))
    if not value.get("capability"):
        yield Problem(message="a request needs a capability", path="capability")
    for name in _TEXTS:
        if not isinstance(value.get(name, ""), str | None):
            yield Problem(message=f"{name} must be text", path=name)
    if value.get("risk_level", "low") not in RISK_LEVELS:
        levels = ", ".join(sorted(RISK_LEVELS))
        yield Problem(message=f"risk_level must be one of: {levels}", path="risk_level")
    for name in ("data_classes", "command"):
        item = value.get(name)
        if item is not None and not _is_text_list(item):
            yield Problem(message=f"{name} must be a list of texts", path=name)
    if not isinstance(value.get("metadata", {}), Mapping | None):
        yield Problem(message="metadata must be an object", path="metadata")
    yield from _target_problems(value.get("target"))


def _target_problems(target: Any) -> Iterable[Problem]:
    if target is None:
        return
    if not isinstance(target, Mapping):
        yield Problem(message="target must be an object", path="target")
        return
    known = {item.name for item in fields(Target)}
    for name, item in target.items():
        if name not in known:
            yield Problem(message=f"unknown target field '{name}'", path=f"target.{name}")
        elif not isinstance(item, str | None):
            yield Problem(message=f"target.{name} must be text", path=f"target.{name}")


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _present(value: Any) -> dict[str, Any]:
    pairs = ((item.name, getattr(value, item.name)) for item in fields(value))
    return {name: item for name, item in pairs if item is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """Who must agree before an asked action goes on. Times are seconds; no roles means any approver."""

    count: int = 1
    roles: tuple[str, ...] = ()
    exclude_requester: bool = False
    exclude_owner: bool = False
    escalate_after_seconds: int | None = None
    at_expiry: Literal["deny", "allow"] = "deny"

    def merged(self, other: ApprovalTerms) -> ApprovalTerms:
        """Return terms at least as demanding as both."""
        roles = self.roles or other.roles
        if self.roles and other.roles:
            roles = tuple(role for role in self.roles if role in other.roles)
            # No role satisfies both sides, so nobody does; an empty list would mean anybody.
            roles = roles or ("nobody",)
        both_allow = self.at_expiry == other.at_expiry == "allow"
        return ApprovalTerms(
            count=max(self.count, other.count),
            roles=roles,
            exclude_requester=self.exclude_requester or other.exclude_requester,
            exclude_owner=self.exclude_owner or other.exclude_owner,
            escalate_after_seconds=_least(
                self.escalate_after_seconds, other.escalate_after_seconds
            ),
            at_expiry="allow" if both_allow else "deny",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """The obligations a decision carries. No `scopes` means the voter may give any."""

    sandbox_required: bool = False
    audit_required: bool = False
    strict_telemetry: bool = False
    approval_expires_seconds: int | None = None
    approvals: ApprovalTerms | None = None
    scopes: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def merged(self, other: Constraints) -> Constraints:
        """Return both together: duties add up, the shorter expiry holds, later metadata wins."""
        approvals = self.approvals or other.approvals
        if self.approvals and other.approvals:
            approvals = self.approvals.merged(other.approvals)
        scopes = self.scopes or other.scopes
        if self.scopes and other.scopes:
            shared = tuple(scope for scope in self.scopes if scope in other.scopes)
            scopes = shared or ("once",)
        return Constraints(
            sandbox_required=self.sandbox_required or other.sandbox_required,
            audit_required=self.audit_required or other.audit_required,
            strict_telemetry=self.strict_telemetry or other.strict_telemetry,
            approval_expires_seconds=_least(
                self.approval_expires_seconds, other.approval_expires_seconds
            ),
            approvals=approvals,
            scopes=scopes,
            metadata={**self.metadata, **other.metadata},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the constraints as JSON, without those that are off."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["approvals"] = _terms_dict(self.approvals)
        values["scopes"] = list(self.scopes)
        values["metadata"] = dict(self.metadata)
        return {name: value for name, value in values.items() if value not in (None, False, [], {})}


def _terms_dict(terms: ApprovalTerms | None) -> dict[str, Any] | None:
    if terms is None:
        return None
    values = {item.name: getattr(terms, item.name) for item in fields(terms)}
    values["roles"] = list(terms.roles)
    return {name: value for name, value in values.items() if value not in (None, False, [])}


def _least(first: int | None, second: int | None) -> int | None:
    given = [value for value in (first, second) if value is not None]
    return min(given, default=None)


NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True, slots=True)
class RuleNote:
    """A rule's part in a decision: which rule, and why it won, lost or did not match."""

    rule_id: str
    effect: Effect
    reason: str | None = None
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the note as JSON."""
        return _present(self)


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a command line: a simple command, or text that could not be read.

    `start` and `end` are character positions in the script (or in the words joined by spaces);
    `reached` says through what it runs, outermost first; `effect` is None where it is unknown;
    `does` says what it does to someone who does not write shell, `program` what it starts.
    """

    text: str
    start: int
    end: int
    reached: tuple[str, ...]
    effect: Effect | None
    rule_id: str | None
    why: str
    does: str = ""
    program: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON; an unreadable one has the effect `unknown`."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {"reached": list(self.reached), "effect": self.effect or "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a decision came about, for people: what won, what else matched, what nearly did."""

    winner: RuleNote | None
    matched: tuple[RuleNote, ...]
    lost: tuple[RuleNote, ...]
    near_misses: tuple[RuleNote, ...]
    mode_default: str | None
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        lists = ("matched", "lost", "near_misses", "parts")
        return {
            "winner": self.winner.to_dict() if self.winner else None,
            "mode_default": self.mode_default,
        } | {name: [item.to_dict() for item in getattr(self, name)] for name in lists}


NOTHING_TO_EXPLAIN = Explanation(
    winner=None, matched=(), lost=(), near_misses=(), mode_default=None, parts=()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDecision:
    """The answer to one request. The explanation is worked out only when it is read."""

    effect: ClassVar[Effect]
    reason_code: ReasonCode
    reason: str
    matched_rules: tuple[str, ...] = ()
    constraints: Constraints = NO_CONSTRAINTS
    explain: Callable[[], Explanation] = field(
        default=lambda: NOTHING_TO_EXPLAIN, repr=False, compare=False
    )

    @property
    def explanation(self) -> Explanation:
        """Which rules won, lost and nearly matched, and how each part of a command fared."""
        return self.explain()

    def to_dict(self) -> dict[str, Any]:
        """Return the decision with its explanation as JSON."""
        return {
            "effect": self.effect,
            "reason_code": self.reason_code,
            "reason": self.reason,
            "matched_rules": list(self.matched_rules),
            "constraints": self.constraints.to_dict(),
            "explanation": self.explanation.to_dict(),
        }


class Allow(PolicyDecision):
    """Go on."""

    __slots__ = ()
    effect = Effect.ALLOW


class Ask(PolicyDecision):
    """A person decides."""

    __slots__ = ()
    effect = Effect.ASK


class Deny(PolicyDecision):
    """No."""

    __slots__ = ()
    effect = Effect.DENY
