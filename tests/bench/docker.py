"""What governing a command costs in Docker.

An agent runs `true` in a sandbox that is ready, through `/sandbox/v1` from the request to the
result: decided, recorded, run, its output kept. Beside it, the Docker SDK's `exec_run` of the same
in the container of a second run, which is exactly like the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import docker

from tests.bench.clock import alternate, timed
from tests.bench.figure import Figure, Scale, at_most_above, timing
from tests.bench.machine import need
from tests.bench.serving import ALLOWED, Agent, checked, served

ROUNDS = 100


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure with two containers, each used in turn with the other."""
    need("docker")
    with (
        served() as server,
        Agent(server, "governed", "docker") as agent,
        Agent(server, "raw", "docker") as other,
        closing(docker.from_env()) as engine,
    ):
        [container] = engine.containers.list(filters={"label": f"omniweb.run={other.run}"})
        governed, raw = alternate(
            scale.rounds(ROUNDS, 20),
            timed(lambda: _governed(agent)),
            timed(lambda: container.exec_run(ALLOWED)),
        )
    yield timing(
        "`true` through /sandbox/v1",
        governed,
        "exec_run of the SDK",
        raw,
        aim=at_most_above(10, "ms"),
    )


def _governed(agent: Agent) -> None:
    address = f"/sandbox/v1/sessions/{agent.run}/exec"
    result = checked(agent.client.post(address, json={"command": ALLOWED}))
    assert result["exit_code"] == 0, result
