"""The HTTP sandbox protocol, as an unmodified agent speaks it to a running server.

This server is impatient, so that waiting past a client's patience takes seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import docker
import httpx
import pytest

from tests.factories import FREE_POLICY, OPEN_POLICY
from tests.server import Server

# With this below it, patience is the command's own limit plus five seconds.
IMPATIENT = {"OMNIWEB_HTTP_WAIT_SECONDS": "1"}
PUSH = ["sh", "-c", "git push origin main; echo pushed >> log"]


class Agent:
    """An agent that speaks the protocol, as little as it can."""

    def __init__(self, server: Server, token: str, http: httpx.Client | None = None) -> None:
        self.home = str(server.data / "local")
        self.http = http or server.client(token)

    def open(self, *, headers: dict[str, str] | None = None, **manifest: Any) -> httpx.Response:
        """Send the body a real client sends, all keys present."""
        body = {
            "image": None,
            "working_dir": self.home,
            "environment": {},
            "network": {"default": "allow", "allowed_hosts": [], "denied_hosts": []},
            "resources": {"cpu": None, "memory": None, "gpu": False},
        }
        return self.http.post(
            "/sandbox/v1/sessions", json={"manifest": {**body, **manifest}}, headers=headers
        )

    def session(self, **manifest: Any) -> str:
        """Open a session."""
        answer = self.open(**manifest)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["session_id"])

    def send(self, session: str, command: list[str] | str, **more: Any) -> httpx.Response:
        """Send a command; a text is a line for the shell."""
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        body = {"command": argv, "cwd": self.home, "env": {}, "timeout_seconds": 1, "stdin": None}
        return self.http.post(f"/sandbox/v1/sessions/{session}/exec", json={**body, **more})

    def run(self, session: str, command: list[str] | str, **more: Any) -> Any:
        """Send a command and return its answer."""
        answer = self.send(session, command, **{"timeout_seconds": 30, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def files(self, session: str, path: str) -> tuple[str, dict[str, str]]:
        """Return where a file is."""
        return f"/sandbox/v1/sessions/{session}/files", {"path": f"{self.home}/{path}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An impatient server with an agent that nobody stops, and one that asks before it pushes."""
    one = started(Server(tmp_path_factory.mktemp("protocol"), settings=IMPATIENT))
    yield one
    one.remove()


def started(server: Server) -> Server:
    """Start a server that runs commands here, under a free policy and one that asks."""
    server.environment_switch("local")
    server.start()
    server.policy("free", FREE_POLICY)
    server.policy("open", OPEN_POLICY)
    return server


@pytest.fixture(scope="module")
def free(server: Server) -> Iterator[Agent]:
    """An agent under a policy without rules."""
    agent = Agent(server, server.agent_made("free-bot", "free"))
    with agent.http:
        yield agent


@pytest.fixture(scope="module")
def asking(server: Server) -> Iterator[Agent]:
    """An agent whose pushes wait for a person and whose deletions are denied."""
    agent = Agent(server, server.agent_made("asking-bot", "open"))
    with agent.http:
        yield agent


@pytest.fixture(scope="module")
def approver(server: Server) -> Iterator[httpx.Client]:
    """A person who may decide."""
    with server.client(server.member_token("approver")) as client:
        yield client


def open_request(approver: httpx.Client, execution: str) -> str:
    """Return the request a command waits for."""
    for _ in range(200):
        asked = approver.get(f"/api/v1/executions/{execution}").json()
        if asked["request"]:
            return str(asked["request"])
        time.sleep(0.05)
    raise AssertionError(f"{execution} waits for nobody")


def decide(approver: httpx.Client, request: str, verdict: str, reason: str = "") -> None:
    """Vote on a request."""
    card = approver.get(f"/api/v1/requests/{request}").json()
    body = {"verdict": verdict, "review_token": card["review_token"], "scope": "once"}
    answer = approver.post(f"/api/v1/requests/{request}/votes", json={**body, "reason": reason})
    assert answer.status_code == 201, answer.text


# Sessions


def test_a_session_is_a_run_with_the_title_and_group_its_headers_say(
    free: Agent, approver: httpx.Client
) -> None:
    headers = {"X-Omniweb-Task": "Flaky checkout test", "X-Omniweb-Group": "nightly"}
    answer = free.open(headers=headers)
    assert answer.status_code == 201
    run = approver.get(f"/api/v1/runs/{answer.json()['session_id']}").json()
    assert (run["title"], run["group"]) == ("Flaky checkout test", "nightly")


def test_unknown_keys_are_ignored(free: Agent) -> None:
    answer = free.open(future="x", resources={"cpu": None, "turbo": True})
    assert answer.status_code == 201
    done = free.run(answer.json()["session_id"], "echo fine", priority="high")
    assert done["stdout"] == "fine\n"


@pytest.mark.parametrize(
    "manifest",
    [
        {"network": {"default": "deny", "allowed_hosts": [], "denied_hosts": []}},
        {"image": "python:3.12-slim"},
        {"resources": {"cpu": "1", "memory": "1g", "gpu": False}},
    ],
)
def test_what_cannot_be_kept_is_refused(free: Agent, manifest: dict[str, Any]) -> None:
    answer = free.open(**manifest)
    assert (answer.status_code, answer.json()["code"]) == (422, "sandbox_unsupported")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "local" in answer.json()["detail"]


def test_what_the_policy_denies_is_refused(server: Server) -> None:
    agent = Agent(server, server.agent_made("strict-bot", "strict-production"))
    with agent.http:
        answer = agent.open()
    assert (answer.status_code, answer.json()["code"]) == (403, "policy_denied")


@pytest.mark.parametrize("token", ["", "omw_nonsense"])
def test_without_a_valid_token_nothing_answers(server: Server, token: str) -> None:
    with server.client(token) as client:
        for method, path in (
            ("POST", "sessions"),
            ("POST", "sessions/run_0/exec"),
            ("PUT", "sessions/run_0/files"),
            ("GET", "sessions/run_0/files"),
            ("DELETE", "sessions/run_0"),
        ):
            assert client.request(method, f"/sandbox/v1/{path}").status_code == 401


def test_another_agents_session_is_not_there(free: Agent, asking: Agent) -> None:
    session = free.session()
    where, params = free.files(session, "a")
    assert asking.send(session, "true").status_code == 404
    assert asking.http.get(where, params=params).status_code == 404
    assert asking.http.delete(f"/sandbox/v1/sessions/{session}").status_code == 204
    assert free.run(session, "echo still here")["stdout"] == "still here\n"


# Commands


def test_a_command_answers_with_its_own_result(free: Agent) -> None:
    session = free.session(environment={"FROM_MANIFEST": "1", "BOTH": "manifest"})
    line = 'cat; echo "$FROM_MANIFEST $BOTH" >&2; exit 7'
    done = free.run(session, line, stdin="déjà\n", env={"BOTH": "call"})
    assert (done["exit_code"], done["timed_out"]) == (7, False)
    assert (done["stdout"], done["stderr"]) == ("déjà\n", "1 call\n")


def test_nothing_of_the_server_is_in_a_commands_environment(free: Agent) -> None:
    done = free.run(free.session(), "env")
    assert "OMNIWEB_DATA" not in done["stdout"]
    assert "DJANGO" not in done["stdout"]


def test_bytes_that_are_no_text_are_replaced(free: Agent) -> None:
    done = free.run(free.session(), r"printf '\377ok'")
    assert done["stdout"] == "\ufffdok"


def test_a_time_limit_ends_the_command_and_says_so(free: Agent) -> None:
    done = free.run(free.session(), "echo begun; sleep 60 & sleep 60", timeout_seconds=1)
    assert (done["exit_code"], done["timed_out"], done["stdout"]) == (137, True, "begun\n")


def test_commands_of_one_session_run_side_by_side_and_share_files(free: Agent) -> None:
    session = free.session()
    wait = "until test -e both-{n}; do sleep 0.05; done; echo {n}"
    lines = [f"touch both-{n}; {wait.format(n=3 - n)}" for n in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda line: free.run(session, line), lines))
    assert [one["stdout"] for one in done] == ["2\n", "1\n"]


def test_the_same_command_twice_at_once_runs_twice(free: Agent) -> None:
    session = free.session()
    with ThreadPoolExecutor(2) as pool:
        line = "echo x >> twice; sleep 0.3"
        list(pool.map(lambda _: free.run(session, line), range(2)))
    assert free.run(session, "cat twice")["stdout"] == "x\nx\n"


def test_a_missing_program_is_the_commands_failure(free: Agent) -> None:
    assert free.run(free.session(), ["no-such-program"])["exit_code"] == 127


@pytest.mark.parametrize("body", [{"command": []}, {"command": "ls"}, {}, {"command": [""]}])
def test_what_is_no_command_is_refused(free: Agent, body: dict[str, Any]) -> None:
    session = free.session()
    answer = free.http.post(f"/sandbox/v1/sessions/{session}/exec", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_a_denied_command_reads_why(asking: Agent) -> None:
    done = asking.run(asking.session(), "rm -rf build")
    assert (done["exit_code"], done["stdout"], done["timed_out"]) == (126, "", False)
    for word in ("open", "version 1", "deny_rm", "Nothing is deleted here.", "Nothing has run"):
        assert word in done["stderr"]


# Waiting for people


def test_past_patience_the_agent_reads_what_waits_and_sending_again_goes_on_waiting(
    asking: Agent, approver: httpx.Client
) -> None:
    session = asking.session()
    first = asking.send(session, PUSH).json()
    assert (first["exit_code"], first["stdout"]) == (126, "")
    request = open_request(approver, first["execution_id"])
    for word in (f"/inbox/{request}", "Nothing has run", "send the same command again"):
        assert word in first["stderr"]
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(asking.run, session, PUSH, timeout_seconds=1)
        time.sleep(0.5)
        decide(approver, request, "approve")
        done = again.result()
    assert done["execution_id"] == first["execution_id"]
    assert "pushed" in asking.run(session, ["cat", "log"])["stdout"]


def test_what_is_approved_while_nobody_listens_runs_once_and_is_delivered_once(
    asking: Agent, approver: httpx.Client
) -> None:
    session = asking.session()
    line = "git push origin once || echo ran >> ran-once; true"
    first = asking.send(session, line).json()
    decide(approver, open_request(approver, first["execution_id"]), "approve")
    path = f"/api/v1/executions/{first['execution_id']}"
    approver.get(path, headers={"Prefer": "wait=30"})
    joined = asking.run(session, line, timeout_seconds=1)
    assert joined["execution_id"] == first["execution_id"]
    # Delivered: the same line again is a new question.
    assert asking.send(session, line).json()["execution_id"] != first["execution_id"]
    assert asking.run(session, ["cat", "ran-once"])["stdout"] == "ran\n"


def test_a_rejection_reaches_the_agent_word_for_word(asking: Agent, approver: httpx.Client) -> None:
    session = asking.session()
    words = "Open a pull request from the branch; nobody pushes to main “directly”."
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asking.run, session, "git push origin rejected")
        for _ in range(200):
            asked = approver.get(f"/api/v1/executions?run={session}").json()["items"]
            if asked:
                break
            time.sleep(0.05)
        decide(approver, open_request(approver, asked[0]["id"]), "reject", words)
        done = answer.result()
    assert (done["exit_code"], done["stdout"]) == (126, "")
    assert f"Rejected by approver@example.org: {words}" in done["stderr"]


def test_a_client_that_goes_away_can_go_on_at_once(asking: Agent, approver: httpx.Client) -> None:
    session = asking.session()
    body = {"command": ["sh", "-c", "git push origin gone"], "timeout_seconds": 30}
    with pytest.raises(httpx.ReadTimeout):
        asking.http.post(f"/sandbox/v1/sessions/{session}/exec", json=body, timeout=1)
    listed = approver.get(f"/api/v1/executions?run={session}").json()["items"]
    assert [one["state"] for one in listed] == ["waiting"]
    time.sleep(0.5)
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(
            asking.http.post, f"/sandbox/v1/sessions/{session}/exec", json=body, timeout=60
        )
        decide(approver, open_request(approver, listed[0]["id"]), "approve")
        assert again.result().json()["execution_id"] == listed[0]["id"]


def test_ending_a_session_stops_what_runs_and_withdraws_what_waits(
    free: Agent, asking: Agent, approver: httpx.Client
) -> None:
    for agent, line in ((free, "sleep 60"), (asking, "git push origin ended")):
        session = agent.session()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(agent.run, session, line)
            time.sleep(1.5)
            assert agent.http.delete(f"/sandbox/v1/sessions/{session}").status_code == 204
            assert answer.result()["exit_code"] in (126, 137)
        over = agent.run(session, "echo again")
        assert over["exit_code"] == 126
        assert "session is over" in over["stderr"]
        assert agent.http.delete(f"/sandbox/v1/sessions/{session}").status_code == 204


# Files


def test_files_keep_every_byte_and_their_folders_are_made(free: Agent) -> None:
    session = free.session()
    data = bytes(range(256)) * 40_000  # more than forms and JSON may have
    where, params = free.files(session, ".skills/tool/dätä %20.bin")
    assert free.http.put(where, params=params, content=data).status_code == 204
    assert free.http.get(where, params=params).content == data
    listing = free.run(session, "wc -c < '.skills/tool/dätä %20.bin'")
    assert listing["stdout"].strip() == str(len(data))


def test_an_empty_file_is_a_file(free: Agent) -> None:
    session = free.session()
    where, params = free.files(session, "empty")
    assert free.http.put(where, params=params, content=b"").status_code == 204
    answer = free.http.get(where, params=params)
    assert (answer.status_code, answer.content) == (200, b"")


def test_no_file_outside_the_working_directory_is_reached(free: Agent) -> None:
    session = free.session()
    free.run(session, "ln -sfn /etc outside")
    where, params = free.files(session, "outside/passwd")
    for path in (params["path"], "/etc/passwd", "../../etc/passwd", ""):
        answer = free.http.get(where, params={"path": path})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), path
    assert free.http.put(where, params=params, content=b"x").status_code == 422


def test_a_file_that_is_not_there_is_not_found(free: Agent) -> None:
    where, params = free.files(free.session(), "absent")
    assert free.http.get(where, params=params).status_code == 404


def test_file_transfers_are_asked_of_the_policy_and_recorded(
    server: Server, approver: httpx.Client
) -> None:
    rules = "rules:\n  deny:\n    - {rule_id: no_env, capability: workspace.files.read, target: {path: '.env'}}\n"
    server.policy("no-env", f"name: no-env\nmode: permissive\n{rules}")
    agent = Agent(server, server.agent_made("file-bot", "no-env"))
    with agent.http:
        session = agent.session()
        where, params = agent.files(session, ".env")
        assert agent.http.put(where, params=params, content=b"SECRET=1").status_code == 204
        refused = agent.http.get(where, params=params)
    assert (refused.status_code, refused.json()["code"]) == (403, "policy_denied")
    steps = approver.get(f"/api/v1/runs/{session}/steps?limit=500").json()["items"]
    written = [step["payload"] for step in steps if step["kind"] == "file_written"]
    assert [(item["path"], item["size"]) for item in written] == [(".env", 8)]
    assert not [step for step in steps if step["kind"] == "file_read"]


# Crashes


def test_after_a_crash_a_waiting_command_is_joined_and_runs_once(
    server_new: Callable[..., Server],
) -> None:
    server = started(server_new(settings=IMPATIENT))
    token = server.agent_made("asking-bot", "open")
    line = "git push origin crash || echo ran >> after-crash; true"
    with server.client(token) as http, ThreadPoolExecutor(1) as pool:
        agent = Agent(server, token, http)
        session = agent.session()
        lost = pool.submit(agent.send, session, line, timeout_seconds=30)
        time.sleep(1.5)
        server.kill()
        with pytest.raises(httpx.TransportError):
            lost.result()
    server.start()
    with server.client(token) as http, server.client(server.admin_token) as approver:
        agent = Agent(server, token, http)
        [waiting] = approver.get(f"/api/v1/executions?run={session}").json()["items"]
        assert waiting["state"] == "waiting"
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(agent.run, session, line)
            decide(approver, open_request(approver, waiting["id"]), "approve")
            assert again.result()["execution_id"] == waiting["id"]
        assert agent.run(session, ["cat", "after-crash"])["stdout"] == "ran\n"
        verified = approver.post(f"/api/v1/runs/{session}/verify").json()
        assert verified["ok"], verified


@pytest.mark.docker
def test_a_lost_sandbox_is_replaced_behind_the_session_and_that_is_said_once(
    server: Server,
) -> None:
    agent = Agent(server, server.agent_made("docker-bot", "free", environment="docker"))
    agent.home = "/workspace"
    with agent.http:
        network = {"default": "deny", "allowed_hosts": [], "denied_hosts": []}
        session = agent.session(network=network)
        assert agent.run(session, "touch kept; id -u")["stdout"] == "65534\n"
        _remove_container(session)
        during = agent.run(session, "ls")
        assert (during["exit_code"], during["stdout"]) == (137, "")
        assert "may have run" in during["stderr"]
        after = agent.run(session, "ls; echo fine")
        assert (after["exit_code"], after["stdout"]) == (0, "fine\n")
        assert "files that earlier commands made are gone" in after["stderr"]
        assert agent.run(session, "true")["stderr"] == ""
        agent.http.delete(f"/sandbox/v1/sessions/{session}")
        with agent.http.stream("GET", f"/api/v1/runs/{session}/events") as events:
            events.read()  # up to the end, when its container is gone
    assert not _containers(session)


def _remove_container(session: str) -> None:
    [name] = _containers(session)
    with closing(docker.from_env()) as engine:
        engine.containers.get(name).remove(force=True)


def _containers(session: str) -> list[str]:
    with closing(docker.from_env()) as engine:
        found = engine.containers.list(all=True)
        return [one.id for one in found if one.id and session in one.labels.values()]
