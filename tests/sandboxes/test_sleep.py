"""Pausing sandboxes, waking them, and stopping tests of environments."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client

from omniweb.core.clock import now
from omniweb.core.errors import Conflict, NotPermitted, ProviderUnavailable, SandboxUnsupported
from omniweb.core.models import AuditEntry
from sandboxes.adapters.local import LocalSandbox
from sandboxes.capabilities import Ability
from sandboxes.executor import execution_run
from sandboxes.models import Environment, EnvironmentTest, Execution, OutputChunk, Run, Sandbox
from sandboxes.providers import registry, table
from sandboxes.services.environment_tests import environment_test_cancel, environment_test_start
from sandboxes.services.reconcile import reconcile
from sandboxes.services.sandboxes import sandbox_current, sandbox_end
from sandboxes.services.sleep import sandbox_pause, sandbox_wake
from sandboxes.tasks import (
    RUN_ROWS,
    environment_test_run,
    sandbox_freeze,
    sandbox_terminate,
    sandbox_thaw,
)
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, work
from tests.people import People, bearer, browser_for

Bells = list[tuple[str, dict[str, str]]]


class Pauses:
    """What the provider was asked, and whether it answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False

    def ask(self, what: str) -> None:
        """Do as a provider that can."""
        if self.is_away:
            raise ProviderUnavailable("nobody answers")
        self.asked.append(what)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """This machine, as if it could pause a sandbox."""
    pauses = Pauses()
    monkeypatch.setattr(LocalSandbox, "pause", lambda self: pauses.ask("pause"))
    monkeypatch.setattr(LocalSandbox, "resume", lambda self: pauses.ask("resume"))
    spec = replace(table.LOCAL, can=table.LOCAL.can | {Ability.PAUSE})
    monkeypatch.setitem(registry._registered, "local", spec)
    return pauses


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch) -> Bells:
    """Every doorbell that is rung; the tests do the workers' part themselves."""
    rung: Bells = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: rung.append((name, kwargs))
    )
    return rung


@pytest.fixture
def run(people: People, provider: Pauses) -> Run:
    policy_use(people.agent, FREE_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def sandbox(run: Run) -> Sandbox:
    found = sandbox_current(run)
    assert found
    return found


def asleep(people: People, sandbox: Sandbox) -> Sandbox:
    """Have it paused, with the worker's part done."""
    assert sandbox_pause(actor=people.operator, sandbox=sandbox)
    sandbox_freeze(sandbox.ref)
    sandbox.refresh_from_db()
    return sandbox


def test_a_paused_sandbox_sleeps_until_it_is_woken(
    people: People, sandbox: Sandbox, provider: Pauses
) -> None:
    asleep(people, sandbox)
    assert (sandbox.state, provider.asked) == ("asleep", ["pause"])
    assert sandbox.paused_at is not None
    assert not sandbox_pause(actor=people.operator, sandbox=sandbox)
    assert sandbox_wake(actor=people.operator, sandbox=sandbox)
    sandbox_thaw(sandbox.ref)
    sandbox.refresh_from_db()
    assert (sandbox.state, provider.asked) == ("ready", ["pause", "resume"])
    left = Sandbox.objects.values_list("paused_at", "wake_wanted_at", "lease_until").get()
    assert left == (None, None, None)
    assert len(sandbox.pauses) == 1
    assert not sandbox_wake(actor=people.operator, sandbox=sandbox)
    acts = AuditEntry.objects.filter(subject=sandbox.ref).values_list("act", flat=True)
    assert set(acts) == {"sandbox.pause", "sandbox.wake"}


def test_a_command_wakes_it_and_then_runs(
    people: People, run: Run, sandbox: Sandbox, provider: Pauses
) -> None:
    asleep(people, sandbox)
    waiting = ask(people.agent, run, "echo hello")
    assert work(waiting).state == "queued"
    assert (
        "was paused and is being woken" in browser_for(people.viewer).get(f"/runs/{run.ref}").text
    )
    sandbox_thaw(sandbox.ref)
    assert work(waiting).state == "finished"


def test_nothing_that_runs_is_frozen(people: People, run: Run, sandbox: Sandbox) -> None:
    running = ask(people.agent, run, "sleep 60")
    Execution.objects.filter(pk=running.pk).update(state="running", sandbox=sandbox)
    with pytest.raises(Conflict, match="A command runs in it"):
        sandbox_pause(actor=people.operator, sandbox=sandbox)


def test_a_worker_that_saw_it_ready_starts_nothing_in_it(
    people: People, run: Run, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Execution.objects.select_related("decision", *[f"run__{name}" for name in RUN_ROWS])
    asked = rows.get(pk=ask(people.agent, run, "echo hello").pk)
    seen = sandbox_current(run)
    monkeypatch.setattr("sandboxes.executor.sandbox_current", lambda run: seen)
    assert sandbox_pause(actor=people.operator, sandbox=sandbox)
    execution_run(execution=asked)
    asked.refresh_from_db()
    assert (asked.state, asked.started_at) == ("queued", None)


def test_one_that_is_wanted_awake_before_it_sleeps_is_not_paused(
    people: People, sandbox: Sandbox, provider: Pauses
) -> None:
    assert sandbox_pause(actor=people.operator, sandbox=sandbox)
    assert sandbox_wake(actor=people.operator, sandbox=sandbox)
    sandbox_freeze(sandbox.ref)
    sandbox_thaw(sandbox.ref)
    sandbox.refresh_from_db()
    assert (sandbox.state, provider.asked, sandbox.pauses) == ("ready", ["resume"], [])


def test_two_workers_do_not_call_about_it_at_once(
    people: People, sandbox: Sandbox, provider: Pauses
) -> None:
    assert sandbox_pause(actor=people.operator, sandbox=sandbox)
    Sandbox.objects.update(lease_until=now() + timedelta(seconds=60))
    assert sandbox_wake(actor=people.operator, sandbox=sandbox)
    sandbox_thaw(sandbox.ref)
    assert provider.asked == []
    Sandbox.objects.update(lease_until=now() - timedelta(seconds=1))
    sandbox_thaw(sandbox.ref)
    assert provider.asked == ["resume"]


@pytest.mark.django_db(transaction=True)
def test_a_provider_that_is_away_is_asked_again(
    people: People, sandbox: Sandbox, provider: Pauses, bells: Bells
) -> None:
    provider.is_away = True
    asleep(people, sandbox)
    assert (sandbox.state, sandbox.paused_at, sandbox.reason) == ("asleep", None, "nobody answers")
    bells.clear()
    reconcile()
    assert ("sandboxes.sandbox_freeze", {"sandbox": sandbox.ref}) in bells
    provider.is_away = False
    sandbox_freeze(sandbox.ref)
    sandbox_wake(actor=people.operator, sandbox=sandbox)
    bells.clear()
    reconcile()
    assert ("sandboxes.sandbox_thaw", {"sandbox": sandbox.ref}) in bells


def test_a_sleeping_sandbox_is_ended_like_any_other(people: People, sandbox: Sandbox) -> None:
    asleep(people, sandbox)
    assert sandbox_end(actor=people.operator, sandbox=sandbox)
    sandbox_terminate(sandbox.ref)
    sandbox.refresh_from_db()
    assert sandbox.state == "terminated"


def test_who_cannot_end_cannot_pause_and_who_cannot_is_told(
    people: People, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotPermitted):
        sandbox_pause(actor=people.approver, sandbox=sandbox)
    monkeypatch.setitem(registry._registered, "local", table.LOCAL)
    with pytest.raises(SandboxUnsupported, match="This machine cannot pause a sandbox"):
        sandbox_pause(actor=people.operator, sandbox=sandbox)
    assert "/pause" not in browser_for(people.operator).get("/sandboxes").text


def test_the_pages_pause_and_wake(people: People, sandbox: Sandbox) -> None:
    client, path = browser_for(people.operator), f"/sandboxes/{sandbox.ref}"
    assert f"{path}/pause" in client.get("/sandboxes").text
    assert f"{path}/pause" not in browser_for(people.viewer).get("/sandboxes").text
    assert "is being paused" in client.post(f"{path}/pause", follow=True).text
    sandbox_freeze(sandbox.ref)
    assert "the next command wakes it" in client.get(path).text
    assert "is being woken" in client.post(f"{path}/wake", follow=True).text


def test_the_api_pauses_and_wakes(people: People, sandbox: Sandbox) -> None:
    client, path = Client(headers=bearer(people.operator)), f"/api/v1/sandboxes/{sandbox.ref}"
    assert client.post(f"{path}/pause").json()["state"] == "asleep"
    assert client.post(f"{path}/wake").status_code == 200


def test_a_sandboxs_page_shows_what_runs_in_it_and_what_that_has_written(
    people: People, run: Run, sandbox: Sandbox
) -> None:
    running = ask(people.agent, run, "make all")
    Execution.objects.filter(pk=running.pk).update(
        state="running", sandbox=sandbox, started_at=now()
    )
    OutputChunk.objects.create(execution=running, stream="stdout", data=b"compiling harbour.c")
    text = browser_for(people.viewer).get(f"/sandboxes/{sandbox.ref}").text
    assert "compiling harbour.c" in text
    assert run_again(run).ref in text


# Stopping a test


@pytest.fixture
def started(people: People) -> EnvironmentTest:
    environment = Environment.objects.get(team=people.team)
    return environment_test_start(actor=people.operator, environment=environment)


def test_a_queued_test_that_is_cancelled_never_runs(
    people: People, started: EnvironmentTest
) -> None:
    assert environment_test_cancel(actor=people.operator, test=started)
    assert not environment_test_cancel(actor=people.operator, test=started)
    environment_test_run(started.ref)
    started.refresh_from_db()
    assert (started.state, started.results) == ("cancelled", [])


def test_a_running_test_that_is_cancelled_stops_and_leaves_nothing(
    people: People, started: EnvironmentTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    terminate = LocalSandbox.terminate
    run_command = LocalSandbox.execute

    def cancel_then(self: LocalSandbox, *args: object, **kwargs: object) -> object:
        client = browser_for(people.operator)
        client.post(f"/environments/{started.environment.ref}/test/cancel")
        return run_command(self, *args, **kwargs)  # type: ignore[arg-type]  # passed on

    def end(self: LocalSandbox) -> None:
        ended.append("one")
        terminate(self)

    monkeypatch.setattr(LocalSandbox, "execute", cancel_then)
    monkeypatch.setattr(LocalSandbox, "terminate", end)
    environment_test_run(started.ref)
    started.refresh_from_db()
    assert started.state == "cancelled"
    assert started.reason == "Cancelled by operator@example.org"
    assert len(started.results) < 3
    assert ended


def test_the_api_cancels_a_test(people: People, started: EnvironmentTest) -> None:
    client = Client(headers=bearer(people.operator))
    answer = client.post(f"/api/v1/environments/{started.environment.ref}/tests/cancel")
    assert answer.json()["state"] == "cancelled"
