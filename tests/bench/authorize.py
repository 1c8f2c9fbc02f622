"""Authorizing a command over HTTP.

An agent asks for a command that its policy allows (`POST /api/v1/runs/…/executions`): that decides,
records decision and step, and queues the command. Each has run before the next is asked for.
`POST /api/v1/policies/…/explain` decides the same and records nothing. Beside both, the same
server's `GET /health/live`, which does nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from tests.bench.clock import Measure, alternate, timed
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.serving import ALLOWED, Agent, checked, served

ROUNDS = 300
REFERENCE = "GET /health/live"


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure what decides and records, and what only decides."""
    with (
        served() as server,
        Agent(server, "bench") as agent,
        server.client(server.admin_token) as admin,
    ):
        asked, explained, alive = alternate(
            scale.rounds(ROUNDS, 20),
            _asking(agent),
            _explaining(admin),
            timed(lambda: agent.client.get("/health/live")),
        )
    aim = at_most(4, "ms")
    yield timing("authorize: decide, record, queue", asked, REFERENCE, alive, aim=aim)
    yield timing("explain: decide only", explained, REFERENCE, alive)


def _asking(agent: Agent) -> Measure:
    def measure() -> float:
        answers = []
        seconds = timed(lambda: answers.append(agent.ask(ALLOWED)))()
        agent.settled(answers[0]["id"])
        return seconds

    return measure


def _explaining(admin: httpx.Client) -> Measure:
    policies = checked(admin.get("/api/v1/policies"))["items"]
    policy = next(one["id"] for one in policies if one["name"] == "bench")
    return timed(
        lambda: checked(admin.post(f"/api/v1/policies/{policy}/explain", json={"command": ALLOWED}))
    )
