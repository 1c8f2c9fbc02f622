"""What the change from one version of a policy to another means: its rules, and what they decide."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from approvals.policy.capabilities import CAPABILITIES, PROCESS_EXEC
from approvals.policy.decision import AuthorityRequest, Effect, PolicyDecision, Target
from approvals.policy.document import PolicyDocument, Rule
from approvals.policy.evaluator import CompiledPolicy
from approvals.policy.kept import request_words
from omniweb.core.canonical import canonical_json

# Rules have their own list, tests are the questions.
_WHOLE = ("name", "mode", "budget", "budgets", "metadata")


class Change(StrEnum):
    """What became of a rule."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """One part that differs; empty text where it is not there."""

    name: str
    before: str
    after: str

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON."""
        return vars(self).copy()


@dataclass(frozen=True, kw_only=True)
class RuleChange:
    """A rule that differs: what it says before and after (None: it is not there), and its parts."""

    kind: Change
    rule_id: str
    before: Effect | None
    after: Effect | None
    parts: tuple[PartChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON."""
        return vars(self) | {"parts": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True, kw_only=True)
class Flip:
    """A request that is decided otherwise."""

    name: str
    request: AuthorityRequest
    before: PolicyDecision
    after: PolicyDecision

    @property
    def is_loosened(self) -> bool:
        """Whether it is decided less strictly than before."""
        return self.after.effect.strictness < self.before.effect.strictness

    def to_dict(self) -> dict[str, Any]:
        """Return the flip as JSON."""
        return {
            "name": self.name,
            "request": self.request.to_dict(),
            "before": self.before.effect,
            "before_rules": list(self.before.matched_rules),
            "after": self.after.effect,
            "after_rules": list(self.after.matched_rules),
            "loosened": self.is_loosened,
        }


@dataclass(frozen=True, kw_only=True)
class PolicyChanges:
    """All of it. `asked` is how many known requests both versions were asked; flips come loosest first."""

    whole: tuple[PartChange, ...]
    rules: tuple[RuleChange, ...]
    flips: tuple[Flip, ...]
    asked: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs in meaning."""
        return not (self.whole or self.rules or self.flips)


def policy_changes(before: CompiledPolicy, after: CompiledPolicy) -> PolicyChanges:
    """Compare two versions: their rules, and every request their tests and examples know."""
    asked = known_requests(before.document, after.document)
    flips = [
        Flip(name=name, request=request, before=was, after=now)
        for name, request in asked
        for was, now in [(before.evaluate(request), after.evaluate(request))]
        if was.effect is not now.effect
    ]
    return PolicyChanges(
        whole=_parts(_whole(before.document), _whole(after.document)),
        rules=tuple(_rules(before.document, after.document)),
        flips=tuple(
            sorted(flips, key=lambda f: f.after.effect.strictness - f.before.effect.strictness)
        ),
        asked=len(asked),
    )


def known_requests(*documents: PolicyDocument) -> list[tuple[str, AuthorityRequest]]:
    """Return the requests that documents know by kept tests and examples, each once, with a name."""
    found: dict[bytes, tuple[str, AuthorityRequest]] = {}
    for document in documents:
        for name, request in _known(document):
            found.setdefault(canonical_json(request.to_dict()), (name, request))
    return list(found.values())


def _known(document: PolicyDocument) -> Iterator[tuple[str, AuthorityRequest]]:
    for test in document.tests:
        request = AuthorityRequest.from_dict(test.request)
        yield test.name or request_words(request), request
    for _, _, rule in document.each_rule():
        if rule.examples:
            for line in (*rule.examples.match, *rule.examples.not_match):
                yield line, _shell(line)


def _shell(line: str) -> AuthorityRequest:
    """Return the request of an agent that runs a line in a sandbox."""
    return AuthorityRequest(
        capability=PROCESS_EXEC,
        target=Target(resource="sh"),
        execution_surface="sandbox",
        risk_level=CAPABILITIES[PROCESS_EXEC].risk,
        command=("sh", "-c", line),
    )


def _whole(document: PolicyDocument) -> dict[str, Any]:
    said = document.to_dict()
    return {name: said[name] for name in _WHOLE if name in said}


def _rules(before: PolicyDocument, after: PolicyDocument) -> Iterator[RuleChange]:
    old = {rule.rule_id: (effect, rule) for effect, _, rule in before.each_rule()}
    new = {rule.rule_id: (effect, rule) for effect, _, rule in after.each_rule()}
    for rule_id in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(rule_id), new.get(rule_id)
        parts = _parts(_said(was), _said(now))
        if not parts:
            continue
        kind = Change.CHANGED if was and now else Change.ADDED if now else Change.REMOVED
        yield RuleChange(
            kind=kind,
            rule_id=rule_id,
            before=was[0] if was else None,
            after=now[0] if now else None,
            parts=parts,
        )


def _said(placed: tuple[Effect, Rule] | None) -> dict[str, Any]:
    if placed is None:
        return {}
    effect, rule = placed
    said = rule.model_dump(mode="json", exclude_defaults=True)
    return {"effect": effect.value} | {
        name: value for name, value in said.items() if name not in ("rule_id", "effect")
    }


def _parts(before: dict[str, Any], after: dict[str, Any]) -> tuple[PartChange, ...]:
    names = dict.fromkeys([*before, *after])
    return tuple(
        PartChange(name=name, before=_text(before.get(name)), after=_text(after.get(name)))
        for name in names
        if before.get(name) != after.get(name)
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
