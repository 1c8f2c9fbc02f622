"""Which version of a policy changed the answer to one question.

Every version is asked. Halving would be quicker and wrong: an answer can change there and back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from approvals.models import PolicyVersion
from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import PolicyDocument
from approvals.policy.simulate import responsible
from omniweb.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one version says: `effect` is empty where its document can no longer be read."""

    version: PolicyVersion
    effect: str
    by: str
    reason: str
    # Whether the version before it says something else, or the same by another rule.
    is_change: bool
    is_other_rule: bool


def answers(versions: Iterable[PolicyVersion], request: AuthorityRequest) -> list[Answer]:
    """Ask each version, given oldest first; return what they say in the same order."""
    told: list[Answer] = []
    for version in versions:
        effect, by, reason = _asked(version, request)
        last = told[-1] if told else None
        told.append(
            Answer(
                version=version,
                effect=effect,
                by=by,
                reason=reason,
                is_change=last is not None and last.effect != effect,
                is_other_rule=last is not None and last.effect == effect and last.by != by,
            )
        )
    return told


def readable(version: PolicyVersion) -> PolicyDocument | None:
    """Return the document of a version, None where it can no longer be read."""
    try:
        return version.compiled().document
    except InvalidInput:
        return None


def _asked(version: PolicyVersion, request: AuthorityRequest) -> tuple[str, str, str]:
    try:
        decision = version.compiled().evaluate(request)
    except InvalidInput:
        return "", "", "This document can no longer be read."
    return decision.effect.value, responsible(decision), decision.reason
