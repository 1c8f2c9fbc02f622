"""Decisions recorded elsewhere, to agree with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from approvals.policy.vectors import disagreement, read_vectors
from omniweb.core.errors import InvalidInput

VECTORS = Path(__file__).parent / "vectors" / "policy_vectors.jsonl.gz"

GOOD = {
    "profile": "strict-production",
    "request": {"capability": "process.exec", "command": ["sh", "-c", "ls"]},
    "expect": {
        "effect": "deny",
        "reason_code": "unknown_capability",
        "matched_rule_ids": [],
        "constraints": {},
    },
    "match": "exact",
}


def first(value: object) -> str:
    return str(disagreement(next(read_vectors([json.dumps(value)]))) or "")


def test_every_recorded_decision_agrees() -> None:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        vectors = list(read_vectors(lines))
    assert len(vectors) == 2181
    assert [str(item) for vector in vectors if (item := disagreement(vector))] == []


def test_a_disagreement_names_the_line_the_command_and_both_answers() -> None:
    wrong = GOOD | {"expect": GOOD["expect"] | {"effect": "allow"}}  # type: ignore[operator] # a dict
    assert first(wrong) == (
        "line 1: strict-production: 'sh -c ls' (exact): "
        'expected {"effect": "allow"}, got {"effect": "deny"}'
    )


@pytest.mark.parametrize(
    ("match", "expected", "agrees"),
    [
        ("at_least", "allow", True),
        ("at_least", "ask", True),
        ("at_least", "deny", True),
        ("exact_effect", "deny", True),
        ("exact_effect", "ask", False),
    ],
)
def test_looser_matches_compare_only_the_effect(match: str, expected: str, *, agrees: bool) -> None:
    vector = GOOD | {"match": match, "expect": {"effect": expected, "reason_code": "other"}}
    assert (first(vector) == "") is agrees


def test_being_looser_than_at_least_is_a_disagreement() -> None:
    vector = {
        "profile": "permissive-dev",
        "request": {"capability": "tool.local.call"},
        "expect": {"effect": "ask"},
        "match": "at_least",
    }
    assert 'got {"effect": "allow"}' in first(vector)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 is not a vector"),
        ("[]", "it is not an object"),
        (json.dumps({"profile": "x"}), "expect is missing"),
        (json.dumps(GOOD | {"profile": "strict-prod"}), "did you mean 'strict-production'?"),
        (json.dumps(GOOD | {"document": {}}), "one of the two"),
        (json.dumps(GOOD | {"match": "roughly"}), "match 'roughly' is none of"),
        (json.dumps(GOOD | {"expect": {"effect": "maybe"}}), "'maybe' is no effect"),
        (json.dumps(GOOD | {"request": {}}), "a request needs a capability"),
    ],
)
def test_an_unreadable_line_is_named_with_its_reason(line: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        list(read_vectors([json.dumps(GOOD), line]))
    assert caught.value.detail.startswith("line 2 is not a vector")
    assert why in caught.value.detail
