"""An unmodified OmniCoreAgent on `/sandbox/v1`: real commands, real containers, real people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.real_agent import RealAgent
from tests.e2e.record import Record, containers, moment, until
from tests.e2e.window import Window
from tests.e2e.world import WAITS_FOR_GO
from tests.server import Server

pytestmark = [pytest.mark.docker, pytest.mark.omnicoreagent]

NOTHING_RAN = 126

ASKS_BEFORE_TEE = """
name: asks-before-tee
mode: permissive
rules:
  ask:
    - {rule_id: ask_tee, capability: process.exec, command: {program: tee},
       reason: Writing files needs a person.}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests here, in whose inbox nothing else waits."""
    server = Server(tmp_path_factory.mktemp("place"))
    assert server.admin_token
    yield server.start()
    server.remove()


@pytest.fixture
def record(place: Server) -> Record:
    """What that server says happened."""
    return Record(place)


def test_a_real_agent_runs_its_commands_in_a_container(
    place: Server, record: Record, real_agent: Callable[..., RealAgent]
) -> None:
    token = place.agent_made("looks-around", "interactive-dev", "docker")

    first, second = real_agent(place, token, "id; uname -a; python3 -V", "exit 3").results()

    assert (first["exit_code"], second["exit_code"]) == (0, 3)
    assert "uid=65534" in first["stdout"]
    assert "Linux" in first["stdout"]
    assert "Python 3" in first["stdout"]
    run = record.run("looks-around")
    assert run["provider"] == "docker"
    asked, failed = record.executions(run["id"])
    assert asked["command"][-1] == "id; uname -a; python3 -V"
    assert asked["stdout"] == first["stdout"]
    assert (asked["exit_code"], failed["exit_code"]) == (0, 3)
    started = [step for step in record.steps(run["id"]) if step["kind"] == "execution_started"]
    assert {step["payload"]["provider"] for step in started} == {"docker"}
    until(lambda: not containers(run["id"]), "an end of the container with its session")


@pytest.mark.browser
def test_its_network_is_approved_with_a_key_in_an_inbox_that_was_open_before(
    place: Server,
    record: Record,
    real_agent: Callable[..., RealAgent],
    window: Callable[..., Window],
) -> None:
    token = place.agent_made("wants-network", "interactive-dev", "docker")
    inbox = window(place, "approver@example.org")
    inbox.open("/inbox")
    inbox.live()
    expect(inbox.page.locator("#card-none")).to_be_visible()
    inbox.mark()

    agent = real_agent(place, token, "echo first", "echo second", network="allow")

    expect(inbox.card()).to_be_visible()
    expect(inbox.card()).to_contain_text("wants-network")
    run = record.run("wants-network")["id"]
    first = until(lambda: record.executions(run), "the first command")
    assert [one["started_at"] for one in first] == [None]
    assert containers(run) == []
    inbox.key("a")
    inbox.toast("Approved")
    assert [one["exit_code"] for one in agent.results()] == [0, 0]
    assert inbox.is_marked
    (request,) = [row for row in record.rows("/requests") if row["agent_name"] == "wants-network"]
    assert request["decided_by"] == "approver@example.org"
    for execution in record.executions(run):
        assert moment(execution["started_at"]) > moment(request["decided_at"])


@pytest.mark.browser
def test_a_rejected_agent_reads_the_words_that_were_typed(
    place: Server,
    record: Record,
    real_agent: Callable[..., RealAgent],
    window: Callable[..., Window],
) -> None:
    token = place.agent_made("hears-no", "interactive-dev", "docker")
    inbox = window(place, "approver@example.org")
    inbox.open("/inbox")
    agent = real_agent(place, token, "echo hello", network="allow")
    expect(inbox.card()).to_contain_text("hears-no")
    words = "Not today: the network is frozen until Friday — ask “release” first."

    inbox.key("r")
    expect(inbox.page.locator("details.reject textarea")).to_be_focused()
    inbox.page.keyboard.type(words)
    inbox.page.keyboard.press("Control+Enter")
    inbox.toast("Rejected")

    (result,) = agent.results()
    assert result["exit_code"] == NOTHING_RAN
    assert words in result["stderr"]
    assert result["stdout"] == ""
    run = record.run("hears-no")
    assert run["state"] == "refused"
    assert [one["started_at"] for one in record.executions(run["id"])] == [None]
    assert containers(run["id"]) == []


def test_past_its_patience_it_is_told_why_and_asking_again_runs_the_command_once(
    server_new: Callable[..., Server], real_agent: Callable[..., RealAgent]
) -> None:
    server = server_new(settings={"OMNIWEB_HTTP_WAIT_SECONDS": "2"})
    assert server.admin_token
    record = Record(server.start())
    server.policy("asks-before-tee", ASKS_BEFORE_TEE)
    token = server.agent_made("impatient", "asks-before-tee", "docker")
    asked = "echo ran | tee -a count"

    agent = real_agent(
        # Without a workspace it does not list files in between, with a command no rule can read.
        # Between asking and asking again it runs something that ends when the test lets it.
        *(server, token, asked, WAITS_FOR_GO, asked, "cat count"),
        timeout="10",
        no_workspace="",
    )
    run = record.run("impatient")["id"]
    request = record.open_request("impatient")
    until(lambda: len(record.executions(run)) == 2, "the command between")
    record.decide(request)
    until(lambda: record.executions(run)[0]["state"] == "finished", "the end of what was approved")
    with server.client(token) as client:
        path = f"/sandbox/v1/sessions/{run}/files"
        assert client.put(path, params={"path": "go"}, content=b"").is_success

    told, _, again, count = agent.results()
    assert told["exit_code"] == NOTHING_RAN
    assert told["stdout"] == ""
    assert f"{server.url}/inbox/{request['id']}" in told["stderr"]
    assert "send the same command again" in told["stderr"]
    assert (again["exit_code"], again["stdout"]) == (0, "ran\n")
    assert count["stdout"] == "ran\n"
    commands = [one["command"][-1] for one in record.executions(run)]
    assert commands == [asked, WAITS_FOR_GO, "cat count"]
