"""Recorded decisions to agree with: reading a file of them, and comparing ours.

One JSON object a line: `{profile | document, request, expect, match}`. `match` says how close:
`exact` in effect, reason code, matched rules and constraints, `exact_effect` in the effect,
`at_least` in being no less strict (allow, ask, deny).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from approvals.policy.decision import AuthorityRequest, Effect, PolicyDecision, ReasonCode
from approvals.policy.document import load_document
from approvals.policy.evaluator import CompiledPolicy, compile_policy
from approvals.policy.profiles import profile_document
from omniweb.core.errors import InvalidInput, NotFound, Problem

MATCHES = ("exact", "exact_effect", "at_least")
COMPARED = ("effect", "reason_code", "matched_rule_ids", "constraints")


@dataclass(frozen=True, slots=True)
class Vector:
    """One recorded decision; `line` is its line in the file, `policy` its name."""

    line: int
    policy: str
    compiled: CompiledPolicy
    request: AuthorityRequest
    expect: Mapping[str, Any]
    match: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A vector we decide otherwise, and in what."""

    vector: Vector
    got: Mapping[str, Any]
    differs: tuple[str, ...]

    def __str__(self) -> str:
        vector = self.vector
        wanted = {name: vector.expect.get(name) for name in self.differs}
        got = {name: self.got[name] for name in self.differs}
        asked = " ".join(vector.request.command or ()) or vector.request.capability
        return (
            f"line {vector.line}: {vector.policy}: {asked!r} ({vector.match}): "
            f"expected {json.dumps(wanted)}, got {json.dumps(got)}"
        )


def read_vectors(lines: Iterable[str]) -> Iterator[Vector]:
    """Yield the vectors of a file; raises InvalidInput naming the first line that is not one."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield _vector(number, json.loads(line))
        except (ValueError, KeyError, TypeError, InvalidInput, NotFound) as error:
            # Deep nesting and bad policies included: whatever it is, the line cannot be compared.
            message = f"line {number} is not a vector: {_cause(error)}"
            raise InvalidInput(problems=[Problem(message=message)]) from error


def _cause(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _vector(number: int, value: Any) -> Vector:
    if not isinstance(value, Mapping):
        raise TypeError("it is not an object")
    if ("profile" in value) == ("document" in value):
        raise ValueError("it names a profile or holds a document, one of the two")
    effect = value["expect"]["effect"]
    if effect not in list(Effect):
        raise ValueError(f"'{effect}' is no effect; one of: {', '.join(Effect)}")
    match = value.get("match", "exact")
    if match not in MATCHES:
        raise ValueError(f"match '{match}' is none of: {', '.join(MATCHES)}")
    if "profile" in value:
        compiled = _profile(value["profile"])
    else:
        compiled = _document(json.dumps(value["document"]))
    return Vector(
        line=number,
        policy=compiled.document.name,
        compiled=compiled,
        request=AuthorityRequest.from_dict(value["request"]),
        expect=value["expect"],
        match=match,
    )


@lru_cache(maxsize=8)
def _profile(name: str) -> CompiledPolicy:
    return compile_policy(profile_document(name))


@lru_cache(maxsize=256)
def _document(text: str) -> CompiledPolicy:
    return compile_policy(load_document(json.loads(text)))


def disagreement(vector: Vector) -> Disagreement | None:
    """Return in what our decision on a vector differs, None when it agrees."""
    got = _outcome(vector.compiled.evaluate(vector.request))
    differs = tuple(dict.fromkeys(_differences(vector, got)))
    return Disagreement(vector, got, differs) if differs else None


def _outcome(decision: PolicyDecision) -> dict[str, Any]:
    return {
        "effect": str(decision.effect),
        "reason_code": str(decision.reason_code),
        "matched_rule_ids": list(decision.matched_rules),
        "constraints": decision.constraints.to_dict(),
    }


def _differences(vector: Vector, got: Mapping[str, Any]) -> Iterator[str]:
    expect = vector.expect
    if got["reason_code"] == ReasonCode.POLICY_ERROR:
        # A deny by accident is strict enough for everything and agrees with nothing.
        yield "reason_code"
    if vector.match == "at_least":
        if Effect(got["effect"]).strictness < Effect(expect["effect"]).strictness:
            yield "effect"
        return
    names = COMPARED if vector.match == "exact" else ("effect",)
    yield from (name for name in names if name in expect and expect[name] != got[name])
