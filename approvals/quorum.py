"""Votes and terms in, outcome out. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Outcome(StrEnum):
    """What the votes so far amount to."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"


def tally(verdicts: Iterable[str], needed: int) -> Outcome:
    """Return the outcome: one rejection ends it, `needed` approvals carry it."""
    approvals = 0
    for verdict in verdicts:
        if verdict == "reject":
            return Outcome.REJECTED
        approvals += 1
    return Outcome.APPROVED if approvals >= max(1, needed) else Outcome.OPEN
