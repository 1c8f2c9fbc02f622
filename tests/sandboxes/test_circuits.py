"""A provider that does not answer is left alone, and what waits for it goes on when it does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from omniweb.core.clock import now
from omniweb.core.errors import ProviderUnavailable
from omniweb.core.models import AuditEntry
from sandboxes.adapters.local import LocalProvider, LocalSandbox
from sandboxes.backoff import BROKEN_AFTER, LONGEST_PAUSE_SECONDS, pause_seconds
from sandboxes.models import Circuit, Execution, Run, Sandbox
from sandboxes.protocol.words import still_waiting
from sandboxes.providers.registry import provider_spec
from sandboxes.services.circuits import circuit_close, circuit_failed, circuit_of, circuit_try
from sandboxes.services.reconcile import reconcile
from sandboxes.services.runs import run_open
from sandboxes.services.sandboxes import sandbox_current
from sandboxes.tasks import sandbox_provision
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, work
from tests.people import People, bearer, browser_for

AWAY = "nobody answers there"


class Line:
    """The way to the provider; cut, nothing that is called comes back."""

    def __init__(self) -> None:
        self.is_cut = False
        self.extra: dict[str, Any] = {}
        self.calls = 0

    def through(self, call: Any) -> Any:
        """Return a call that goes over this line."""

        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.is_cut:
                raise ProviderUnavailable(AWAY, **self.extra)
            return call(*args, **kwargs)

        return called


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """The way to what makes sandboxes on this machine."""
    line = Line()
    for owner, name in (
        (LocalProvider, "_create"),
        (LocalSandbox, "execute"),
        (LocalSandbox, "is_running"),
    ):
        monkeypatch.setattr(owner, name, line.through(getattr(owner, name)))
    return line


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every doorbell that is rung; the tests do the workers' part themselves."""
    rung: list[str] = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: rung.append(name)
    )
    return rung


@pytest.fixture
def opened(people: People) -> Run:
    """A run that is allowed and has no sandbox yet."""
    policy_use(people.agent, FREE_POLICY)
    return run_again(run_open(actor=people.agent, title="flaky checkout test"))


def due() -> None:
    """Let every pause be over."""
    Circuit.objects.update(retry_at=now())
    Sandbox.objects.update(not_before=None)


def attempt(run: Run) -> Sandbox:
    """Let a worker try to make a run's sandbox once, whenever it may."""
    due()
    sandbox = sandbox_current(run)
    assert sandbox
    sandbox_provision(sandbox.ref)
    sandbox.refresh_from_db()
    return sandbox


def broken(run: Run, line: Line) -> Circuit:
    """Cut the line and let it be found out often enough."""
    line.is_cut = True
    for _ in range(BROKEN_AFTER):
        attempt(run)
    circuit = circuit_of(run)
    assert circuit
    return circuit


def test_pauses_double_up_to_the_longest_and_are_spread() -> None:
    still = [pause_seconds(count, asked=None, chance=0.0) for count in range(1, 12)]
    assert still[:4] == [5, 10, 20, 40]
    assert still[-1] == LONGEST_PAUSE_SECONDS
    assert pause_seconds(1, asked=None, chance=1.0) == 7.5
    assert pause_seconds(1, asked=90, chance=0.0) == 90
    assert pause_seconds(1, asked=10**9, chance=0.0) == 3600
    assert pause_seconds(4, asked=1, chance=0.0) == 40
    assert pause_seconds(10**6, asked=-5, chance=0.0) == LONGEST_PAUSE_SECONDS


def test_a_sandbox_that_could_not_be_made_is_wanted_again_and_its_commands_wait(
    people: People, opened: Run, line: Line
) -> None:
    waiting = ask(people.agent, opened, "echo hello")
    line.is_cut = True
    first = attempt(opened)
    assert (first.state, first.reason) == ("failed", AWAY)
    again = sandbox_current(opened)
    assert again
    assert (again.state, again.wanted_at) == ("intended", first.wanted_at)
    assert again.not_before is not None
    assert again.not_before > now()

    sandbox_provision(again.ref)
    assert line.calls == 1
    waiting.refresh_from_db()
    assert waiting.state == "queued"
    assert f"has not answered since {now():%H}" in still_waiting(waiting)
    assert AWAY in still_waiting(waiting)

    line.is_cut = False
    assert attempt(opened).state == "ready"
    assert work(waiting).state == "finished"
    circuit = circuit_of(opened)
    assert circuit
    assert (circuit.state, circuit.failures, circuit.retry_at) == ("closed", 0, None)


def test_enough_failures_in_a_row_open_the_circuit_and_one_tries_it(
    people: People, opened: Run, line: Line, bells: list[str]
) -> None:
    circuit = broken(opened, line)
    assert (circuit.state, circuit.failures) == ("open", BROKEN_AFTER)
    calls = line.calls
    other = run_again(run_open(actor=people.agent))
    kept_back = sandbox_current(other)
    assert kept_back
    sandbox_provision(kept_back.ref)
    assert line.calls == calls

    Circuit.objects.update(retry_at=now())
    seen = [Circuit.objects.get(), Circuit.objects.get()]
    assert [circuit_try(circuit=one) for one in seen] == [True, False]
    # Whoever tried is lost; after its lease it is another's turn, and again only one's.
    Circuit.objects.update(lease_until=now() - timedelta(seconds=1))
    line.is_cut = False
    assert attempt(other).state == "ready"
    assert Circuit.objects.get().state == "closed"


def test_a_trial_that_fails_makes_the_pause_longer(opened: Run, line: Line) -> None:
    before = broken(opened, line)
    assert before.retry_at is not None
    attempt(opened)
    after = Circuit.objects.get()
    assert (after.state, after.failures) == ("open", BROKEN_AFTER + 1)
    assert after.retry_at is not None
    assert after.retry_at - now() > timedelta(seconds=30)
    assert after.failing_since == before.failing_since


def test_a_pause_the_provider_asks_for_is_kept(opened: Run, line: Line) -> None:
    line.extra = {"retry_after": 600}
    line.is_cut = True
    attempt(opened)
    retry_at = Circuit.objects.get().retry_at
    assert retry_at is not None
    assert retry_at - now() > timedelta(seconds=590)


def test_patience_ends_and_what_waited_fails_with_the_reason(
    people: People, opened: Run, line: Line, settings: Any
) -> None:
    waiting = ask(people.agent, opened, "echo hello")
    broken(opened, line)
    settings.PROVIDER_PATIENCE_SECONDS = 0
    sandbox = sandbox_current(opened)
    assert sandbox
    Sandbox.objects.update(not_before=None)
    sandbox_provision(sandbox.ref)
    waiting.refresh_from_db()
    assert waiting.state == "failed"
    assert "has not answered since" in waiting.reason
    assert waiting.exit_code is None
    assert sandbox_current(opened) is None


def test_a_queued_command_is_not_spent_on_finding_out(people: People, line: Line) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_ready(people.agent, people.approver)
    for _ in range(BROKEN_AFTER):
        circuit_failed(run=run, error=ProviderUnavailable(AWAY))
    line.is_cut = True
    waiting = ask(people.agent, run, "echo hello")
    assert work(waiting).state == "queued"
    Circuit.objects.update(retry_at=now())
    assert work(waiting).state == "queued"
    assert Circuit.objects.get().failures == BROKEN_AFTER + 1
    line.is_cut = False
    Circuit.objects.update(retry_at=now())
    assert work(waiting).state == "finished"
    assert Circuit.objects.get().failures == 0


def test_a_command_waits_no_longer_than_patience_lasts(
    people: People, line: Line, settings: Any
) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_ready(people.agent, people.approver)
    for _ in range(BROKEN_AFTER):
        circuit_failed(run=run, error=ProviderUnavailable(AWAY))
    waiting = ask(people.agent, run, "echo hello")
    settings.PROVIDER_PATIENCE_SECONDS = 0
    assert work(waiting).state == "failed"
    assert Execution.objects.get(pk=waiting.pk).started_at is None


def test_what_a_command_does_says_nothing_against_its_provider(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_ready(people.agent, people.approver)
    assert work(ask(people.agent, run, "exit 3")).exit_code == 3
    assert not Circuit.objects.exists()


def test_accounts_are_told_apart_by_whom_they_call_alone() -> None:
    spec = provider_spec("daytona")
    one = spec.account({"image": "a", "api_key": "k", "target": "eu"})
    assert one == {"api_key": "k", "target": "eu"}
    assert spec.account({"image": "b", "api_key": "k", "target": "eu"}) == one
    assert spec.account({"api_key": "other"}) != one


@pytest.mark.django_db(transaction=True)
def test_a_person_has_it_tried_at_once(
    people: People, opened: Run, line: Line, bells: list[str]
) -> None:
    circuit = broken(opened, line)
    line.is_cut = False
    bells.clear()
    assert circuit_close(actor=people.operator, circuit=circuit)
    assert not circuit_close(actor=people.operator, circuit=circuit)
    assert AuditEntry.objects.filter(act="circuit.close", subject=circuit.ref).count() == 1
    assert "sandboxes.reconcile" in bells
    Sandbox.objects.update(created_at=now() - timedelta(minutes=1))
    reconcile()
    assert "sandboxes.sandbox_provision" in bells
    sandbox = sandbox_current(opened)
    assert sandbox
    sandbox_provision(sandbox.ref)
    sandbox.refresh_from_db()
    assert sandbox.state == "ready"


@pytest.mark.parametrize("path", ["/sandboxes", "/providers", "/"])
def test_pages_say_who_does_not_answer_and_offer_to_try(
    people: People, opened: Run, line: Line, path: str
) -> None:
    circuit = broken(opened, line)
    seen = browser_for(people.viewer).get(path).text
    assert "This machine has not answered since" in seen
    assert "Next try in" in seen
    assert f"/circuits/{circuit.ref}/close" not in seen
    assert f"/circuits/{circuit.ref}/close" in browser_for(people.operator).get(path).text
    assert AWAY not in browser_for(people.outsider).get(path).text


def test_the_runs_page_says_what_it_waits_for(people: People, opened: Run, line: Line) -> None:
    broken(opened, line)
    assert "has not answered since" in browser_for(people.viewer).get(f"/runs/{opened.ref}").text


def test_only_who_configures_has_it_tried(people: People, opened: Run, line: Line) -> None:
    circuit = broken(opened, line)
    path = f"/circuits/{circuit.ref}/close"
    assert browser_for(people.approver).post(path).status_code == 403
    assert browser_for(people.outsider).post(path).status_code == 404
    answer = browser_for(people.operator).post(path, follow=True)
    assert "is tried now" in answer.text


def test_the_api_tells_and_closes(people: People, opened: Run, line: Line) -> None:
    circuit = broken(opened, line)
    operator = Client(headers=bearer(people.operator))
    listed = operator.get("/api/v1/circuits").json()["items"]
    assert [(one["id"], one["state"], one["reason"]) for one in listed] == [
        (circuit.ref, "open", AWAY)
    ]
    told = operator.get(f"/api/v1/runs/{opened.ref}").json()["waits_for"]
    assert "has not answered since" in told
    closed = operator.post(f"/api/v1/circuits/{circuit.ref}/close").json()
    assert (closed["state"], closed["failures"]) == ("closed", 0)
    assert operator.get(f"/api/v1/runs/{opened.ref}").json()["waits_for"] == ""
