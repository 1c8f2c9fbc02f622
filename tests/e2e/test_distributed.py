"""Two web processes, two workers and a clock on PostgreSQL and Redis: one product."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from tests.e2e.record import WAIT_SECONDS, Record
from tests.e2e.world import POLICY, Agent
from tests.faults.cluster import Cluster
from tests.server import Server

pytestmark = [pytest.mark.redis, pytest.mark.postgres]

COMMANDS = 40
# A socket that is silent for five seconds is where clients of Redis have lost it before.
SILENCE_SECONDS = 7


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All those processes, running."""
    one = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        one.start()
        one.server.policy("harbour", POLICY)
        yield one
    finally:
        one.remove()


@pytest.fixture
def record(cluster: Cluster) -> Record:
    """What the first web process says happened."""
    return Record(cluster.server)


def execute(url: str, token: str, run: str, script: str) -> dict[str, Any]:
    """Run a shell line through the sandbox protocol of one web process."""
    answer = httpx.post(
        f"{url}/sandbox/v1/sessions/{run}/exec",
        json={"command": ["sh", "-c", script]},
        headers={"Authorization": f"Bearer {token}"},
        timeout=WAIT_SECONDS,
        verify=False,
    )
    assert answer.is_success, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_forty_commands_through_both_doors_run_once_each(
    cluster: Cluster, record: Record, tmp_path: Path
) -> None:
    agent = Agent(cluster.server, "busy", "harbour")
    runs = [agent.run(f"Work {number}") for number in range(4)]
    effects = tmp_path / "effects"

    def one(number: int) -> dict[str, Any]:
        script = f"echo {number} | tee -a {effects}"
        return execute(cluster.urls[number % 2], agent.token, runs[number % len(runs)], script)

    with ThreadPoolExecutor(10) as pool:
        told = list(pool.map(one, range(COMMANDS)))

    assert [one["stdout"] for one in told] == [f"{number}\n" for number in range(COMMANDS)]
    assert sorted(map(int, effects.read_text().split())) == list(range(COMMANDS))
    executions = record.rows("/executions")
    assert [row["state"] for row in executions if row["run"] in runs] == ["finished"] * COMMANDS
    assert json.loads(cluster.server.manage("verify_ledger", "--json"))["ok"]


def test_what_waits_at_one_door_is_decided_at_the_other(cluster: Cluster, record: Record) -> None:
    agent = Agent(cluster.server, "asks", "harbour")
    run = agent.run("Make a file")

    with ThreadPoolExecutor(1) as pool:
        script = "touch made && echo made"
        waiting = pool.submit(execute, cluster.urls[0], agent.token, run, script)
        request = record.open_request("asks")
        headers = {"Authorization": f"Bearer {cluster.server.member_token('approver')}"}
        vote = {"verdict": "approve", "review_token": request["review_token"], "scope": "once"}
        address = f"{cluster.urls[1]}/api/v1/requests/{request['id']}/votes"
        answer = httpx.post(address, json=vote, headers=headers, verify=False, timeout=60)
        assert answer.is_success, answer.text

        assert waiting.result()["stdout"] == "made\n"


def test_a_hint_crosses_processes_even_after_a_silence(cluster: Cluster, record: Record) -> None:
    agent = Agent(cluster.server, "hints", "harbour")
    run = agent.run("Hint")
    with closing(cluster.server.browser("approver@example.org")) as person:
        cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())

    async def listen() -> None:
        # What happens is told to the first web process, and heard at the second.
        url = cluster.urls[1]
        async with connect(
            f"ws{url[4:]}/ws/live", additional_headers={"Cookie": cookies}, origin=Origin(url)
        ) as socket:
            await socket.send(json.dumps({"listen": ["inbox"]}))
            await _heard(socket, "listening", ["inbox"])
            for name in ("one", "two"):
                await asyncio.sleep(SILENCE_SECONDS)
                await asyncio.to_thread(agent.ask, run, f"touch {name}")
                await _heard(socket, "topic", "inbox")

    asyncio.run(listen())


async def _heard(socket: ClientConnection, key: str, value: object) -> None:
    """Wait until the server says something; its pings do not count."""
    async with asyncio.timeout(WAIT_SECONDS):
        while json.loads(await socket.recv()).get(key) != value:
            pass


def test_a_server_without_a_worker_needs_a_broker(tmp_path: Path) -> None:
    server = Server(tmp_path / "alone")
    with pytest.raises(AssertionError, match="needs REDIS_URL"):
        server.manage("serve", "--no-worker")
    server.remove()
