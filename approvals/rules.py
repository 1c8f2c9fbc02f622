"""A policy document as a table: which rule says what about what, in the order they win."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from approvals.policy.document import PolicyDocument, Rule


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """One rule. `when` are conditions as (what, value), `duties` what it puts on a yes."""

    effect: str
    rule_id: str
    capability: str
    when: list[tuple[str, str]]
    duties: list[tuple[str, str]]
    reason: str


def rule_rows(document: PolicyDocument) -> list[RuleRow]:
    """Return every rule, deny before ask before allow."""
    return [
        RuleRow(
            effect=effect.value,
            rule_id=rule.rule_id,
            capability=rule.capability,
            when=list(_when(rule)),
            duties=list(_said(rule.constraints)),
            reason=rule.reason or "",
        )
        for effect, _, rule in document.each_rule()
    ]


def rule_counts(document: PolicyDocument) -> dict[str, int]:
    """Return how many rules there are of each effect."""
    rules = document.rules
    return {"deny": len(rules.deny), "ask": len(rules.ask), "allow": len(rules.allow)}


def _when(rule: Rule) -> Iterator[tuple[str, str]]:
    if rule.command is not None:
        yield "command", " ".join("|".join(words) for words in rule.command.words)
    for part in (rule.target, rule.conditions):
        if part is not None:
            yield from _said(part)


def _said(part: BaseModel) -> Iterator[tuple[str, str]]:
    for name, value in part.model_dump(mode="json", exclude_defaults=True).items():
        yield name.replace("_", " "), _words(value)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_words(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return {True: "yes", False: "no"}.get(value, str(value)) if value is not None else ""
