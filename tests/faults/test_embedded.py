"""The whole product in one process, killed while a run opens, waits, is prepared, runs and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniweb.core.ids import uuid7
from tests.faults.outside import POLICIES, Agent, Running, Word, approve_all, rest, until
from tests.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that these tests kill; each leaves it running and at rest."""
    made = Server(tmp_path_factory.mktemp("server"))
    made.environment_switch("local")
    made.start()
    for name, source in POLICIES.items():
        made.policy(name, source)
    yield made
    made.remove()


@pytest.fixture
def agent(server: Server) -> Iterator[Agent]:
    """An agent on this machine that asks nobody."""
    made = Agent(server.url, token=server.agent_made(f"bot-{uuid7().hex}", "free"))
    yield made
    made.close()


def test_a_command_that_waits_for_a_person_is_decided_after_the_kill_and_runs_once(
    server: Server, tmp_path: Path
) -> None:
    agent = Agent(server.url, token=server.agent_made("asking-bot", "asking"))
    session = agent.open()
    word = Word(tmp_path)
    waiting = Running(lambda: agent.run(session, word))
    with server.client(server.admin_token) as admin:
        until(lambda: admin.get("/api/v1/requests?state=open").json()["items"])
        server.kill()
        server.start()
        assert approve_all(admin) == 1
    assert waiting.told()["stdout"] == "said\n"
    assert word.ran() == 1
    agent.close()


def test_a_command_that_ran_is_unknown_after_the_kill_and_is_not_started_again(
    server: Server, agent: Agent, tmp_path: Path
) -> None:
    session = agent.open()
    word = Word(tmp_path, "sleep 600")
    running = Running(lambda: agent.run(session, word))
    until(word.ran)
    server.kill()
    server.start()
    assert "does not know how this command ended" in running.told()["stderr"]
    rest(server)
    after = Word(tmp_path)
    assert "A new one took its place" in agent.run(session, after)["stderr"]
    assert (word.ran(), after.ran()) == (1, 1)


def test_a_run_that_was_ending_ends_after_the_kill(
    server: Server, agent: Agent, tmp_path: Path
) -> None:
    session = agent.open()
    word = Word(tmp_path, "sleep 600")
    Running(lambda: agent.run(session, word))
    until(word.ran)
    assert agent.call("DELETE", session).status_code == 204
    server.kill()
    server.start()
    rest(server)
    until(lambda: _state(server, session) == "succeeded")


def test_kills_at_any_moment_of_opening_leave_whole_runs_or_none(
    server: Server, agent: Agent, tmp_path: Path
) -> None:
    for delay in (0.0, 0.02, 0.05, 0.1):
        words = [Word(tmp_path) for _ in range(4)]
        agents = [Running(lambda word=word: agent.run(agent.open(), word)) for word in words]  # type: ignore[misc]  # a default
        time.sleep(delay)
        server.kill()
        server.start()
        for one, word in zip(agents, words, strict=True):
            told = one.told()
            assert word.ran() == (told["stdout"] == "said\n") or told["exit_code"] == 137
    rest(server)


@pytest.mark.docker
def test_a_container_that_was_being_made_is_replaced_and_none_is_left(
    server: Server, docker_image: str, tmp_path: Path
) -> None:
    agent = Agent(server.url, token=server.agent_made("far-bot", "free", "docker"))
    for delay in (0.1, 0.4):
        session = agent.open()
        time.sleep(delay)
        server.kill()
        server.start()
        told = agent.call("POST", f"{session}/exec", json={"command": ["echo", "there"]})
        assert told.json()["stdout"] == "there\n", told.text
        rest(server, 90)
        agent.call("DELETE", session)
        until(lambda session=session: _state(server, session) == "succeeded")  # type: ignore[misc]  # a default
    rest(server, 90)
    agent.close()


def _state(server: Server, session: str) -> str:
    run = session.rpartition("/")[2]
    with server.client(server.admin_token) as admin:
        return str(admin.get(f"/api/v1/runs/{run}").json()["state"])
