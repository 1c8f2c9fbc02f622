"""Runs whose commands an HTTP service carries out: a broken one, and another OmniWeb."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from omniweb.accounts.permissions import Actor, system
from sandboxes.models import Execution, Profile, Run, RunState
from sandboxes.selectors import output_bytes
from sandboxes.services.environments import environment_create
from sandboxes.services.files import file_read, file_write
from sandboxes.services.reconcile import reconcile
from sandboxes.services.runs import run_end, run_finish, run_open
from sandboxes.services.sandboxes import sandbox_provision
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, work
from tests.people import People, bearer
from tests.providers import unique
from tests.providers.services import Asked, Listening, Reply, Wire, listening
from tests.server import Server


def environment_use(agent: Actor, options: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Have an agent's runs carried out by a service."""
    environment = environment_create(
        actor=system(agent.team), name="remote", provider="http", options=options, manifest=manifest
    )
    Profile.objects.filter(agent=agent.agent).update(environment=environment)


@pytest.fixture(autouse=True)
def _nobody_is_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do the workers' part themselves."""
    monkeypatch.setattr("omniweb.core.jobs.current_app.send_task", lambda name, kwargs: None)


class Moody:
    """A service that answers commands as its mood is."""

    def __init__(self) -> None:
        self.mood = "fine"
        self.sessions = 0

    def __call__(self, asked: Asked, wire: Wire) -> Reply | None:
        """Answer one request."""
        if asked.line == "POST /sessions":
            self.sessions += 1
            return Reply(body={"session_id": f"s{self.sessions}"})
        if not asked.path.endswith("/exec"):
            return Reply(status=204)
        match self.mood:
            case "cut":
                wire.connection.shutdown(socket.SHUT_RDWR)
                return None
            case "lost":
                return Reply(status=404, body=b"expired")
            case "down":
                return Reply(status=503, body=b"maintenance")
            case "nonsense":
                return Reply(body=b"<html>")
        return Reply(body={"exit_code": 0, "stdout": "hi"})


@pytest.fixture
def moody() -> Iterator[tuple[Moody, Listening]]:
    """A service with moods, and where it listens."""
    respond = Moody()
    with listening(respond) as service:
        yield respond, service


@pytest.fixture
def run(people: People, moody: tuple[Moody, Listening]) -> Run:
    """A ready run at the service."""
    policy_use(people.agent, FREE_POLICY)
    environment_use(people.agent, {"base_url": moody[1].url}, {})
    return run_ready(people.agent, people.approver)


@pytest.mark.parametrize(
    ("mood", "state", "words"),
    [
        ("fine", "finished", ""),
        ("cut", "unknown", "the session was ended, the command may have run"),
        ("lost", "unknown", "no longer has the session s1 (expired); the command may have run"),
        ("down", "failed", "answered 503 for POST /sessions/s1/exec: maintenance"),
        ("nonsense", "failed", "something that is not JSON; the command may have run"),
    ],
)
def test_a_services_failure_is_never_a_commands_result(
    people: People, run: Run, moody: tuple[Moody, Listening], mood: str, state: str, words: str
) -> None:
    moody[0].mood = mood
    done = work(ask(people.agent, run, "echo hi"))
    assert done.state == state
    assert words in done.reason
    assert (done.exit_code is not None) == (mood == "fine")


@pytest.mark.parametrize("mood", ["cut", "lost"])
def test_after_a_lost_session_the_next_command_gets_a_new_one(
    people: People, run: Run, moody: tuple[Moody, Listening], mood: str
) -> None:
    moody[0].mood = mood
    work(ask(people.agent, run, "echo one"))
    moody[0].mood = "fine"
    again = work(ask(people.agent, run, "echo two"))
    new = run_again(run).sandboxes.get(state="intended")
    sandbox_provision(sandbox=new)
    assert work(again).state == "finished"
    assert new.handle == {"session": "s2"}


def test_a_run_that_ends_ends_its_session_and_asks_again_until_it_is(
    people: People, run: Run, moody: tuple[Moody, Listening]
) -> None:
    respond = moody[1].respond
    moody[1].respond = lambda asked, wire: Reply(status=500, body=b"busy")
    run_end(actor=people.agent, run=run, outcome=RunState.SUCCEEDED)
    run_finish(run=run_again(run))
    assert run_again(run).state == "finishing"
    moody[1].respond = respond
    reconcile()
    run_finish(run=run_again(run))
    assert run_again(run).state == "succeeded"
    assert moody[1].lines[-1] == "DELETE /sessions/s1"


def test_a_service_that_refuses_the_manifest_says_why_to_whoever_waits(
    people: People, moody: tuple[Moody, Listening]
) -> None:
    policy_use(people.agent, FREE_POLICY)
    environment_use(people.agent, {"base_url": moody[1].url}, {})
    moody[1].respond = lambda asked, wire: Reply(status=422, body={"detail": "no such image"})
    run = run_open(actor=people.agent)
    waiting = ask(people.agent, run, "echo hi")
    sandbox_provision(sandbox=run.sandboxes.get())
    waiting.refresh_from_db()
    assert waiting.state == "failed"
    assert waiting.reason == "The sandbox service answered 422 for POST /sessions: no such image"


# Another OmniWeb as the service: what it decides holds inside what ours decides.

INNER_POLICY = """
name: inner
mode: permissive
rules:
  ask:
    - {rule_id: ask_git_push, capability: process.exec, command: {prefix: [git, push]},
       reason: Publishing needs a person.}
  deny:
    - {rule_id: deny_rm, capability: process.exec, command: {program: rm},
       reason: Nothing is deleted here.}
"""


@pytest.fixture(scope="module")
def inner_token(server: Server) -> str:
    """The token of an agent of the other OmniWeb."""
    # Tests on committed rows come last, after those of other modules: made anew for them.
    name = unique("inner")
    server.policy(name, INNER_POLICY.replace("inner", name))
    return server.agent_made(name, policy=name)


# Commands that take a while are looked at from another connection, which sees committed rows only.
committed = pytest.mark.django_db(transaction=True)


@pytest.fixture
def nested(people: People, server: Server, inner_token: str) -> Iterator[Run]:
    """A ready run of ours whose sandbox is a session of the other."""
    policy_use(people.agent, FREE_POLICY)
    options = {"base_url": f"{server.url}/sandbox/v1", "token": inner_token}
    folder = str(server.data / "local")
    manifest = {"working_dir": folder, "network_policy": {"default": "allow"}}
    environment_use(people.agent, options, manifest)
    run = run_ready(people.agent, people.approver)
    yield run
    run_end(actor=people.agent, run=run_again(run), outcome=RunState.SUCCEEDED)
    run_finish(run=run_again(run))
    assert run_again(run).state == "succeeded"


def output(execution: Execution, stream: str = "stdout") -> str:
    """Return what a command wrote."""
    return output_bytes(execution, stream).decode()


def inner_run(server: Server, run: Run) -> dict[str, Any]:
    """Return the other's run behind a run of ours."""
    session = run.sandboxes.get().handle["session"]
    with server.client(server.admin_token) as admin:
        found: dict[str, Any] = admin.get(f"/api/v1/runs/{session}").json()
    return found


@committed
def test_a_command_runs_there_and_both_have_it_on_record(
    people: People, nested: Run, server: Server
) -> None:
    done = work(ask(people.agent, nested, "echo out; ls /no/such/thing; exit 3"))
    assert (done.state, done.exit_code) == ("finished", 3)
    assert output(done) == "out\n"
    assert "/no/such/thing" in output(done, "stderr")
    assert inner_run(server, nested)["state"] == "active"


def test_files_go_in_and_out(people: People, nested: Run) -> None:
    data = bytes(range(256))
    file_write(actor=people.agent, run=run_again(nested), path="nested/a b.bin", data=data)
    assert file_read(actor=people.agent, run=run_again(nested), path="nested/a b.bin") == data


@committed
def test_what_the_other_policy_denies_is_not_run(people: People, nested: Run) -> None:
    done = work(ask(people.agent, nested, "rm -rf /nothing"))
    assert (done.state, done.exit_code) == ("finished", 126)
    assert "Nothing is deleted here. Nothing has run." in output(done, "stderr")


@committed
def test_the_others_time_limit_reaches_us_as_one(people: People, nested: Run) -> None:
    done = work(ask(people.agent, nested, "sleep 30", time_limit_seconds=1))
    assert done.state == "timed_out"


@committed
def test_a_command_waits_for_the_others_people(people: People, nested: Run, server: Server) -> None:
    waiting = ask(people.agent, nested, "git push --dry-run no-such-remote")
    with ExitStack() as cleanup:
        approver = cleanup.enter_context(server.client(server.member_token("approver")))
        voted = threading.Thread(target=_approve_next, args=(approver,))
        voted.start()
        done = work(waiting)
        voted.join()
    assert done.state == "finished"
    assert "not a git repository" in output(done, "stderr")


def _approve_next(approver: Any) -> None:
    """Approve our next request in the other's inbox, where other tests may have left some."""
    for _ in range(200):
        listed = approver.get("/api/v1/requests", params={"state": "open"}).json()["items"]
        found = [item for item in listed if item["sentence"].startswith("inner_")]
        if found:
            one = approver.get(f"/api/v1/requests/{found[0]['id']}").json()
            vote = {"verdict": "approve", "review_token": one["review_token"]}
            answer = approver.post(f"/api/v1/requests/{one['id']}/votes", json=vote)
            assert answer.status_code < 300, answer.text
            return
        time.sleep(0.1)


def test_a_token_that_was_revoked_is_told_and_never_shown(
    people: People, server: Server, tmp_path: Path
) -> None:
    policy_use(people.agent, FREE_POLICY)
    options = {"base_url": f"{server.url}/sandbox/v1", "token": "omniweb-no-such-token"}
    environment_use(people.agent, options, {})
    run = run_open(actor=people.agent)
    sandbox = run.sandboxes.get()
    sandbox_provision(sandbox=sandbox)
    sandbox.refresh_from_db()
    assert sandbox.state == "failed"
    assert "answered 401 for POST /sessions" in sandbox.reason
    assert "no-such-token" not in sandbox.reason


def test_the_doctor_looks_at_each_environments_service(
    people: People, moody: tuple[Moody, Listening]
) -> None:
    environment_use(people.agent, {"base_url": moody[1].url}, {})
    told = StringIO()
    call_command("doctor", "--json", stdout=told)
    seen = {item["name"]: item for item in json.loads(told.getvalue())["findings"]}
    assert seen["http"]["ok"]
    assert seen["http: remote"]["seen"] == f"a service answers at {moody[1].url}"


def test_what_authorises_us_at_a_service_is_in_no_record(
    people: People, moody: tuple[Moody, Listening]
) -> None:
    policy_use(people.agent, FREE_POLICY)
    headers = {"X-Team": "planted-header-one", "X-Api-Key": "planted-header-two"}
    options = {"base_url": moody[1].url, "token": "planted-token-three", "headers": headers}
    environment_use(people.agent, options, {})
    run = run_ready(people.agent, people.approver)
    work(ask(people.agent, run, "echo hi"))
    record = str([step.payload for step in run.trajectory.steps.all()])
    assert "planted" not in record
    assert moody[1].url in record
    address = f"/api/v1/runs/{run.ref}"
    for path in (address, f"{address}/trajectory", f"{address}/steps"):
        assert "planted" not in Client().get(path, headers=bearer(people.admin)).text
