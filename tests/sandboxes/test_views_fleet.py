"""The pages of sandboxes and providers."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from omniweb.core.models import AuditEntry
from sandboxes.capabilities import NAMES
from sandboxes.models import Execution, Run, Sandbox, SandboxState
from sandboxes.providers import registry
from sandboxes.providers.registry import provider_specs, register_sandbox_provider
from sandboxes.services.sandboxes import sandbox_current, sandbox_end
from sandboxes.tasks import sandbox_terminate
from sandboxes.views import providers
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, work
from tests.people import People, browser_for


@pytest.fixture
def run(people: People) -> Run:
    policy_use(people.agent, FREE_POLICY, name="free")
    return run_ready(people.agent, people.approver)


@pytest.fixture
def sandbox(run: Run) -> Sandbox:
    found = sandbox_current(run)
    assert found
    return found


def test_the_fleet_says_whose_each_sandbox_is_and_how_isolated(
    people: People, sandbox: Sandbox
) -> None:
    text = browser_for(people.viewer).get("/sandboxes").text
    for words in ("Ready", "flaky checkout test", "fix-bot", "not isolated", sandbox.ref):
        assert words in text


def test_an_ended_sandbox_leaves_the_fleet_and_stays_among_all(
    people: People, sandbox: Sandbox
) -> None:
    Sandbox.objects.filter(pk=sandbox.pk).update(state=SandboxState.TERMINATED)
    client = browser_for(people.viewer)
    assert "No live sandboxes" in client.get("/sandboxes").text
    assert sandbox.ref in client.get("/sandboxes?show=all").text


def test_an_operator_ends_a_sandbox_and_the_next_command_gets_a_new_one(
    people: People, run: Run, sandbox: Sandbox
) -> None:
    client = browser_for(people.operator)
    assert "is being ended" in client.post(f"/sandboxes/{sandbox.ref}/end", follow=True).text
    assert AuditEntry.objects.filter(act="sandbox.end", subject=sandbox.ref).exists()
    sandbox_terminate(sandbox.ref)
    sandbox.refresh_from_db()
    assert sandbox.state == SandboxState.TERMINATED
    assert sandbox.reason == "Ended by operator@example.org"

    work(ask(people.agent, run, "true"))
    again = sandbox_current(run_again(run))
    assert again is not None
    assert again.pk != sandbox.pk


def test_what_runs_in_an_ended_sandbox_is_told_to_stop(
    people: People, run: Run, sandbox: Sandbox
) -> None:
    execution = ask(people.agent, run, "sleep 60")
    Execution.objects.filter(pk=execution.pk).update(state="running", sandbox=sandbox)
    assert sandbox_end(actor=people.operator, sandbox=sandbox)
    execution.refresh_from_db()
    assert execution.cancel_requested_at is not None


def test_a_sandbox_is_ended_once(people: People, sandbox: Sandbox) -> None:
    assert sandbox_end(actor=people.operator, sandbox=sandbox)
    assert not sandbox_end(actor=people.operator, sandbox=sandbox)
    answer = browser_for(people.operator).post(f"/sandboxes/{sandbox.ref}/end", follow=True)
    assert "cannot be ended as it stands" in answer.text


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_only_those_who_end_runs_end_sandboxes(people: People, sandbox: Sandbox, name: str) -> None:
    client = browser_for(people.everyone[name])
    assert "End sandbox" not in client.get(f"/sandboxes/{sandbox.ref}").text
    assert client.post(f"/sandboxes/{sandbox.ref}/end").status_code == 403
    sandbox.refresh_from_db()
    assert sandbox.state == SandboxState.READY


def test_another_teams_sandbox_is_not_there(people: People, sandbox: Sandbox) -> None:
    client = browser_for(people.outsider)
    assert "No live sandboxes" in client.get("/sandboxes").text
    assert client.get(f"/sandboxes/{sandbox.ref}").status_code == 404
    assert client.post(f"/sandboxes/{sandbox.ref}/end").status_code == 404


def test_the_matrix_shows_every_promise(people: People) -> None:
    text = browser_for(people.viewer).get("/providers").text
    for spec in provider_specs():
        assert spec.label in text
        for words in (spec.network.deny, spec.network.allow, spec.network.allowed_hosts):
            assert words.replace("'", "&#x27;").replace('"', "&quot;") in text
    assert text.count('scope="col"') >= len(NAMES)
    assert "pip install &#x27;omniweb[e2b]&#x27;" in text or "installed" in text.lower()


def test_credentials_are_named_and_never_shown(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E2B_API_KEY", "hush-hush-1234")
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    text = browser_for(people.viewer).get("/providers").text
    assert 'E2B_API_KEY</code> <span class="good">set' in text
    assert 'DAYTONA_API_KEY</code> <span class="muted">missing' in text
    assert "hush-hush" not in text


def test_whether_a_provider_works_is_fetched_by_the_page(people: People) -> None:
    client = browser_for(people.viewer)
    assert "Usable" in client.get("/providers/local/here").text
    assert "By environment" in client.get("/providers/http/here").text
    assert client.get("/providers/nowhere/here").status_code == 404


def test_a_provider_that_does_not_answer_keeps_nobody_waiting(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    class Silent:
        def __init__(self, options: Any) -> None:
            pass

        def check(self) -> str:
            done.wait(30)
            return ""

    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    monkeypatch.setattr(providers, "PATIENCE_SECONDS", 0.2)
    register_sandbox_provider("silent", Silent)  # type: ignore[arg-type]  # only asked to check
    started = time.monotonic()
    text = browser_for(people.viewer).get("/providers/silent/here").text
    done.set()
    assert time.monotonic() - started < 10
    assert "No answer" in text
