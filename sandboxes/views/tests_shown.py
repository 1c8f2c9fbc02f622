"""Tests of environments as pages show them: by topic, with how far one has come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sandboxes.models import EnvironmentTest
from sandboxes.providers import conformance
from sandboxes.providers.conformance import Outcome
from sandboxes.providers.isolation import Evidence


@dataclass(frozen=True, kw_only=True)
class ShownTopic:
    """Checks that belong together, and how many of them came out how."""

    name: str
    results: list[dict[str, Any]]
    ok: int
    failed: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class ShownTest:
    """A test, its topics so far, and how many checks there are in all."""

    test: EnvironmentTest
    topics: list[ShownTopic]
    proof: Evidence | None
    done: int
    total: int
    ok: int
    failed: int
    skipped: int


def shown_test(test: EnvironmentTest) -> ShownTest:
    """Return a test for a page."""
    topics = [
        _topic(name, list(results))
        for name, results in groupby(test.results, lambda result: result["topic"])
    ]
    return ShownTest(
        test=test,
        topics=topics,
        proof=Evidence.from_dict(test.isolation),
        done=len(test.results),
        total=len(conformance.checks()),
        ok=test.count(Outcome.OK),
        failed=test.count(Outcome.FAILED),
        skipped=test.count(Outcome.SKIPPED),
    )


def _topic(name: str, results: list[dict[str, Any]]) -> ShownTopic:
    counts = {
        outcome: sum(1 for result in results if result["outcome"] == outcome) for outcome in Outcome
    }
    return ShownTopic(
        name=name,
        results=results,
        ok=counts[Outcome.OK],
        failed=counts[Outcome.FAILED],
        skipped=counts[Outcome.SKIPPED],
    )
