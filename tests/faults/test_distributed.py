"""Many processes, one killed after the other in the middle of twenty commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.faults.outside import AGAIN_SECONDS, POLICIES, Agent, Running, Word, approve_all, rest
from tests.server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
SESSIONS, COMMANDS = 4, 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An installation that these tests break; each leaves it whole."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        for name, source in POLICIES.items():
            made.server.policy(name, source)
        yield made
    finally:
        made.remove()


def kill_and_begin(cluster: Cluster, name: str) -> None:
    """Kill a process, and start it again after a moment."""
    cluster.kill(name)
    time.sleep(2)
    cluster.begin(name)


BREAKS: dict[str, Callable[[Cluster], None]] = {
    "a worker": lambda cluster: kill_and_begin(cluster, "worker 1"),
    "a web process": lambda cluster: kill_and_begin(cluster, "web 1"),
    "redis": lambda cluster: kill_and_begin(cluster, "redis"),
    "the database's sessions": Cluster.disconnect,
}


@pytest.mark.parametrize("name", BREAKS)
def test_twenty_commands_survive_the_end_of(name: str, cluster: Cluster, tmp_path: Path) -> None:
    agent = Agent(*cluster.urls, token=cluster.server.agent_made(f"bot {name}", "free"))
    sessions = [agent.open() for _ in range(SESSIONS)]
    words = [Word(tmp_path, "sleep 1") for _ in range(COMMANDS)]
    agents = [
        Running(lambda at=at, word=word: agent.run(sessions[at % SESSIONS], word, AGAIN_SECONDS))  # type: ignore[misc]  # defaults
        for at, word in enumerate(words)
    ]
    while not any(word.ran() for word in words):
        time.sleep(0.02)
    BREAKS[name](cluster)
    answers = [one.told() for one in agents]
    ended(cluster.server, agent, sessions)
    for word, told in zip(words, answers, strict=True):
        assert word.ran() == 1 if told["stdout"] == "said\n" else word.ran() <= 1
    if name != "a worker":
        assert [told["stdout"] for told in answers] == ["said\n"] * COMMANDS


def test_people_decide_while_redis_is_away_and_the_commands_run(
    cluster: Cluster, tmp_path: Path
) -> None:
    agent = Agent(*cluster.urls, token=cluster.server.agent_made("asking bot", "asking"))
    session = agent.open()
    words = [Word(tmp_path) for _ in range(4)]
    agents = [Running(lambda word=word: agent.run(session, word, AGAIN_SECONDS)) for word in words]  # type: ignore[misc]  # a default
    decided = 0
    with cluster.server.client(cluster.server.admin_token) as admin:
        while decided < 2:
            decided += approve_all(admin)
        cluster.kill("redis")
        while decided < 4:
            decided += approve_all(admin)
    cluster.begin("redis")
    assert [one.told()["stdout"] for one in agents] == ["said\n"] * 4
    assert [word.ran() for word in words] == [1] * 4
    ended(cluster.server, agent, [session])


def ended(server: Server, agent: Agent, sessions: list[str]) -> None:
    """End an agent's sessions, and see that nothing is left of them."""
    for session in sessions:
        assert agent.call("DELETE", session).status_code == 204
    agent.close()
    rest(server)
