"""kill -9 of the server, and Ctrl-C: what people and agents find when it is there again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest
from playwright.sync_api import expect

from tests import machine
from tests.e2e.record import Record, Row, containers, until
from tests.e2e.window import Window
from tests.e2e.world import POLICY, Agent
from tests.server import Server

STOPS_SECONDS = 20


def assert_verified(server: Server) -> None:
    """Check that every record is what it was when it was written."""
    verified = json.loads(server.manage("verify_ledger", "--json"))
    assert verified["ok"], verified
    assert verified["steps"] > 0


def open_count(record: Record) -> int:
    """Count what waits, as the database has it."""
    return len(record.rows("/requests", state="open"))


def of(agent: Agent, record: Record) -> list[Row]:
    """Return the requests of an agent."""
    return [row for row in record.rows("/requests") if row["agent_name"] == agent.name]


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests here kill and start again; nothing is left waiting by any."""
    server = Server(tmp_path_factory.mktemp("harbour"))
    Record(server.start()).turn_on("local")
    server.policy("harbour", POLICY)
    yield server
    server.remove()


@pytest.fixture
def agent(harbour: Server, request: pytest.FixtureRequest) -> Agent:
    """An agent of the test's own on this machine."""
    return Agent(harbour, request.node.name[5:40], "harbour")


@pytest.mark.browser
def test_what_waited_when_the_server_was_killed_waits_on_and_runs_once(
    harbour: Server, agent: Agent, window: Callable[..., Window]
) -> None:
    record = Record(harbour)
    run = agent.run("Publish")
    # The folder is shared by all runs on this machine: each test counts in a file of its own.
    asked = agent.ask(run, "echo ran | tee -a count-approved; touch made")
    request = record.open_request(agent.name)
    inbox = window(harbour, "approver@example.org")
    inbox.open("/inbox")
    inbox.live()

    harbour.kill()
    harbour.start()

    # Sessions have survived, and so has what waited; nothing has run meanwhile.
    inbox.open("/inbox")
    expect(inbox.card(request["id"])).to_be_visible()
    expect(inbox.page.locator("#inbox-count")).to_have_attribute(
        "data-count", str(open_count(record))
    )
    assert record.get(f"/executions/{asked}")["started_at"] is None
    inbox.live()
    inbox.key("a")
    inbox.toast("Approved")
    assert agent.settled(asked)["state"] == "finished"
    counted = agent.settled(agent.ask(run, "cat count-approved"))
    assert counted["stdout"] == "ran\n"
    started = [step for step in record.steps(run) if step["kind"] == "execution_started"]
    assert [step["payload"]["execution"] for step in started].count(asked) == 1
    expect(inbox.page.locator("#inbox-count")).to_have_attribute("data-count", "0")
    assert open_count(record) == 0
    assert_verified(harbour)
    inbox.complaints.clear()  # the console tells that nobody answered for a while


def test_a_client_that_waited_when_the_server_was_killed_asks_again_and_gets_the_one_result(
    harbour: Server, agent: Agent
) -> None:
    record = Record(harbour)
    run = agent.run("Publish")
    exec_path = f"{harbour.url}/sandbox/v1/sessions/{run}/exec"
    body = {"command": ["sh", "-c", "echo ran | tee -a count-joined; touch made"]}
    headers = {"Authorization": f"Bearer {agent.token}"}

    def ask() -> httpx.Response:
        return httpx.post(exec_path, json=body, headers=headers, timeout=120)

    def ask_in_vain() -> None:
        with pytest.raises(httpx.TransportError):
            ask()

    waiting = Thread(target=ask_in_vain)
    waiting.start()
    request = record.open_request(agent.name)

    harbour.kill()
    waiting.join()
    harbour.start()
    answers: list[httpx.Response] = []
    again = Thread(target=lambda: answers.append(ask()))
    again.start()
    record.decide(record.request(request["id"]))
    again.join()

    assert (answers[0].json()["exit_code"], answers[0].json()["stdout"]) == (0, "ran\n")
    assert len(record.rows("/executions", run=run)) == 1
    assert [row["state"] for row in of(agent, record)] == ["spent"]
    assert_verified(harbour)


def test_what_ran_when_the_server_was_killed_is_unknown_and_not_run_again(harbour: Server) -> None:
    machine.require("docker")
    record = Record(harbour)
    agent = Agent(harbour, "counts-in-docker", "interactive-dev", "docker")
    run = agent.run("Count")
    asked = agent.ask(run, "echo begun; sleep 600", time_limit_seconds=900)
    until(lambda: record.get(f"/executions/{asked}")["stdout"], "output of a command")
    (first,) = containers(run)

    harbour.kill()
    harbour.start()

    lost = agent.settled(asked)
    assert lost["state"] == "unknown"
    assert lost["stdout"] in ("", "begun\n")
    # What still ran in the container goes with it; the next command gets a new one.
    until(lambda: first not in containers(run), "an end of the old container")
    assert agent.settled(agent.ask(run, "echo next"))["stdout"] == "next\n"
    assert record.get(f"/executions/{asked}")["state"] == "unknown"
    started = [step for step in record.steps(run) if step["kind"] == "execution_started"]
    assert [step["payload"]["execution"] for step in started].count(asked) == 1
    agent.call("POST", f"/runs/{run}/end", json={})
    until(lambda: not containers(run), "an end of all containers")
    assert_verified(harbour)


def test_a_process_of_this_machine_does_not_outlive_the_record_of_it(
    harbour: Server, agent: Agent, tmp_path: Path
) -> None:
    record = Record(harbour)
    ticks = tmp_path / "ticks"
    counter = f"python3 -u -c 'import time\nwhile 1: print(1); time.sleep(.1)' | tee -a {ticks}"
    run = agent.run("Tick")
    asked = agent.ask(run, counter, time_limit_seconds=900)
    until(lambda: ticks.exists() and ticks.read_text(), "a first tick")

    harbour.kill()
    harbour.start()

    assert agent.settled(asked)["state"] == "unknown"

    def has_stopped() -> bool:
        before = ticks.read_text()
        time.sleep(1)
        return ticks.read_text() == before

    until(has_stopped, "an end of the ticking")
    assert of(agent, record) == []
    assert_verified(harbour)


def test_ctrl_c_ends_the_server_well_with_somebody_waiting_and_keeps_sessions(
    harbour: Server, agent: Agent
) -> None:
    record = Record(harbour)
    run = agent.run("Wait")
    agent.ask(run, "touch made")
    request = record.open_request(agent.name)
    person = harbour.browser("approver@example.org")
    begun = time.monotonic()

    assert harbour.stop() == 0
    assert time.monotonic() - begun < STOPS_SECONDS
    harbour.start()

    page = person.get("/inbox")
    person.close()
    assert request["id"] in page.text
    assert record.get(f"/requests/{request['id']}")["state"] == "open"
    agent.call("POST", f"/runs/{run}/end", json={})
    assert_verified(harbour)
