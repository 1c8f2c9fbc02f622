"""From yes to start.

A command waits, a person approves it over the API, and it is handed to its provider, which is this
machine itself: `started_at` of the command less `decided_at` of the request. Beside it, the same
for a command that nobody has to approve: from asked to started.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from tests.bench.clock import Measure, alternate
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.serving import ALLOWED, REVIEWED, Agent, approve, seconds_between, served

ROUNDS = 100


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure with one agent and one reviewer, nobody else being there."""
    with (
        served() as server,
        Agent(server, "bench") as agent,
        server.client(server.member_token("approver")) as approver,
    ):
        approved, allowed = alternate(
            scale.rounds(ROUNDS, 20), approving(agent, approver), _allowing(agent)
        )
    reference = "asked → started, allowed"
    yield timing("approved → started", approved, reference, allowed, aim=at_most(15, "ms"))


def approving(agent: Agent, approver: httpx.Client) -> Measure:
    """Measure one command that is approved."""

    def measure() -> float:
        asked = agent.ask(REVIEWED)
        decided = approve(approver, asked["request"])
        started = agent.settled(asked["id"])["started_at"]
        return seconds_between(decided["decided_at"], started)

    return measure


def _allowing(agent: Agent) -> Measure:
    def measure() -> float:
        settled = agent.settled(agent.ask(ALLOWED)["id"])
        return seconds_between(settled["created_at"], settled["started_at"])

    return measure
