"""Sandboxes that are ready before a run asks for one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from approvals.models import Request
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, ProviderError
from sandboxes.adapters.local import LocalProvider, LocalSandbox
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Run, RunState, Sandbox, WarmSandbox
from sandboxes.providers.base import Owned
from sandboxes.services.capacity import capacity_set, capacity_taken
from sandboxes.services.environments import environment_switch, environment_update
from sandboxes.services.reconcile import reconcile, sandboxes_compare
from sandboxes.services.runs import run_end, run_finish, run_open
from sandboxes.services.sandboxes import sandbox_current, sandbox_terminate
from sandboxes.services.warm import REST, warm_fill, warm_set
from sandboxes.tasks import sandbox_provision, warm_provision, warm_terminate
from tests.factories import FREE_POLICY, ask, policy_use, run_again, vote, work
from tests.people import People, bearer, browser_for


@pytest.fixture(autouse=True)
def _nobody_is_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do the workers' part themselves."""
    monkeypatch.setattr("omniweb.core.jobs.current_app.send_task", lambda name, kwargs: None)


@pytest.fixture
def environment(people: People) -> Environment:
    """Where the agent runs; one sandbox is kept ready and has been made."""
    policy_use(people.agent, FREE_POLICY, name="free")
    found = Environment.objects.get(team=people.team)
    warm_set(actor=people.operator, environment=found, warm_sandboxes=1)
    filled(found)
    return found


def filled(environment: Environment) -> None:
    """Do what workers do for a pool."""
    warm_fill(environment=environment)
    for warm in WarmSandbox.objects.filter(state="terminating"):
        warm_terminate(warm.ref)
    for warm in WarmSandbox.objects.filter(state="intended"):
        warm_provision(warm.ref)


def provided(run: Run) -> Sandbox:
    """Do what a worker does for a run that wants a sandbox."""
    sandbox = sandbox_current(run)
    assert sandbox
    sandbox_provision(sandbox.ref)
    sandbox.refresh_from_db()
    return sandbox


def states() -> list[str]:
    return list(WarmSandbox.objects.values_list("state", flat=True))


def test_a_run_takes_what_is_ready_and_it_is_replaced(
    people: People, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = WarmSandbox.objects.get()
    assert (warm.state, bool(warm.handle)) == ("ready", True)
    run = run_again(run_open(actor=people.agent))
    with monkeypatch.context() as patched:
        # Nothing is made for it.
        patched.delattr(LocalProvider, "_create")
        sandbox = provided(run)
    warm.refresh_from_db()
    assert (sandbox.state, sandbox.handle) == ("ready", warm.handle)
    assert (warm.state, warm.sandbox_id) == ("taken", sandbox.pk)
    assert work(ask(people.agent, run, "echo hello")).state == "finished"
    filled(environment)
    assert states() == ["taken", "ready"]


def test_the_evidence_of_its_making_is_a_step_of_the_run_that_takes_it(
    people: People, environment: Environment
) -> None:
    seen = {"verdict": "proven", "reason": "only loopback is there"}
    WarmSandbox.objects.update(isolation=seen)
    run = run_again(run_open(actor=people.agent))
    assert provided(run).isolation == seen
    step = run.trajectory.steps.filter(kind="sandbox_state").latest("seq")
    assert (step.payload["state"], step.payload["evidence"]) == ("ready", seen)


def test_a_run_that_is_not_allowed_yet_takes_nothing(
    people: People, environment: Environment
) -> None:
    policy_use(
        people.agent,
        'name: asks\nrules: {ask: [{rule_id: ask_all, capability: "sandbox.*"}]}\n',
        name="asks",
    )
    run = run_open(actor=people.agent)
    assert (run.state, sandbox_current(run), states()) == ("waiting", None, ["ready"])
    for request in Request.objects.filter(subject_id=run.pk):
        vote(people.approver, request)
    assert provided(run_again(run)).state == "ready"
    assert states() == ["taken"]


def test_a_run_with_a_manifest_of_its_own_gets_a_new_one(
    people: People, environment: Environment
) -> None:
    own = Manifest.parse({"environment": {"plain": {"COLOUR": "blue"}}})
    kept = Manifest.parse(environment.manifest)
    run = run_again(run_open(actor=people.agent, manifest=kept.merged_with(own)))
    assert provided(run).state == "ready"
    assert states() == ["ready"]


def test_of_two_runs_one_takes_it_and_the_other_gets_a_new_one(
    people: People, environment: Environment
) -> None:
    first = run_again(run_open(actor=people.agent))
    second = run_again(run_open(actor=people.agent))
    handles = [provided(run).handle for run in (first, second)]
    assert handles[0] == WarmSandbox.objects.get().handle
    assert handles[0] != handles[1]


def test_one_that_is_gone_is_not_given_away(people: People, environment: Environment) -> None:
    warm = WarmSandbox.objects.get()
    run = run_again(run_open(actor=people.agent))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalSandbox, "is_running", lambda self: False)
        sandbox = provided(run)
    assert sandbox.state == "ready"
    assert sandbox.handle != warm.handle
    assert states() == ["lost"]


@pytest.mark.parametrize("change", ["options", "off", "fewer", "age"])
def test_what_is_no_longer_wanted_is_ended(
    people: People, environment: Environment, change: str
) -> None:
    match change:
        case "options":
            environment_update(
                actor=people.operator,
                environment=environment,
                options={**environment.options, "inherit_environment": True},
                manifest=environment.manifest,
            )
        case "off":
            environment_switch(actor=people.operator, environment=environment, is_enabled=False)
        case "fewer":
            warm_set(actor=people.operator, environment=environment, warm_sandboxes=0)
        case "age":
            WarmSandbox.objects.update(stale_at=now())
    filled(environment)
    assert states() == ["terminated"] + ["ready"] * (change in ("options", "age"))


def test_a_pool_takes_up_room_and_leaves_it_to_runs(
    people: People, environment: Environment
) -> None:
    capacity_set(actor=people.operator, environment=environment, max_sandboxes=1)
    assert capacity_taken(environment) == 1
    warm_set(actor=people.operator, environment=environment, warm_sandboxes=2)
    filled(environment)
    assert states() == ["ready"]
    own = Manifest.parse({**environment.manifest, "environment": {"plain": {"COLOUR": "blue"}}})
    run = run_again(run_open(actor=people.agent, manifest=own))
    assert provided(run).state == "intended"
    filled(environment)
    assert states() == ["terminated"]
    assert provided(run).state == "ready"
    filled(environment)
    assert states() == ["terminated"]
    assert capacity_taken(environment) == 1


def test_a_full_environment_hands_over_what_is_ready(
    people: People, environment: Environment
) -> None:
    capacity_set(actor=people.operator, environment=environment, max_sandboxes=1)
    run = run_again(run_open(actor=people.agent))
    warm_fill(environment=environment)
    assert provided(run).state == "ready"
    assert states() == ["taken"]
    assert capacity_taken(environment) == 1


def test_a_pool_that_cannot_be_made_rests(people: People, environment: Environment) -> None:
    warm_set(actor=people.operator, environment=environment, warm_sandboxes=2)

    def refuse(*_: object) -> None:
        raise ProviderError("no such image")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalProvider, "_create", refuse)
        filled(environment)
    assert states() == ["ready", "failed"]
    filled(environment)
    assert states() == ["ready", "failed"]
    WarmSandbox.objects.filter(state="failed").update(ended_at=now() - REST)
    filled(environment)
    assert states() == ["ready", "failed", "ready"]


def test_what_a_lost_worker_was_making_is_told_and_its_leftover_is_an_orphan(
    people: People, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    WarmSandbox.objects.update(state="provisioning", lease_until=now() - timedelta(seconds=1))
    warm = WarmSandbox.objects.get()
    listed = [Owned(handle=warm.handle, run=warm.ref, sandbox=warm.ref, running=True)]
    ended: list[str] = []
    monkeypatch.setattr(LocalProvider, "list_owned", lambda self, install: listed)
    monkeypatch.setattr(LocalSandbox, "terminate", lambda self: ended.append(str(self.handle)))
    sandboxes_compare()
    assert not ended
    reconcile()
    assert WarmSandbox.objects.get(pk=warm.pk).state == "lost"
    sandboxes_compare()
    assert ended == [str(warm.handle)]


def test_one_that_was_taken_is_an_orphan_once_its_run_is_over(
    people: People, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_again(run_open(actor=people.agent))
    sandbox = provided(run)
    warm = WarmSandbox.objects.get()
    listed = [Owned(handle=warm.handle, run=warm.ref, sandbox=warm.ref, running=True)]
    monkeypatch.setattr(LocalProvider, "list_owned", lambda self, install: listed)
    monkeypatch.setattr(LocalSandbox, "is_running", lambda self: False)
    Sandbox.objects.update(ready_at=now() - timedelta(minutes=1))
    ended: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalSandbox, "terminate", lambda self: ended.append("it"))
        sandboxes_compare()
    sandbox.refresh_from_db()
    # It is listed under the name it was made with, and not missed under its own.
    assert (sandbox.state, ended) == ("ready", [])
    run_end(actor=people.agent, run=run, outcome=RunState.SUCCEEDED)
    run_finish(run=run_again(run))
    assert sandbox_terminate(sandbox=Sandbox.objects.select_related("run").get(pk=sandbox.pk))
    monkeypatch.setattr(LocalSandbox, "terminate", lambda self: ended.append("it"))
    sandboxes_compare()
    assert ended == ["it"]


@pytest.mark.parametrize("count", [-1, 101])
def test_a_pool_of_no_size_is_refused(people: People, environment: Environment, count: int) -> None:
    with pytest.raises(InvalidInput, match="must be 0 to 100"):
        warm_set(actor=people.operator, environment=environment, warm_sandboxes=count)


def test_page_and_api_set_it(people: People, environment: Environment) -> None:
    path = f"/environments/{environment.ref}"
    client = browser_for(people.operator)
    sent = {"max_sandboxes": "", "warm_sandboxes": "3"}
    assert "1 of 3 ready" in client.post(f"{path}/capacity", sent, follow=True).text
    answer = client.post(f"{path}/capacity", {**sent, "warm_sandboxes": "many"}, follow=True)
    assert "Kept ready: must be 0 to 100" in answer.text
    api = Client(headers=bearer(people.operator))
    body = api.patch(f"/api/v1{path}", {"warm_sandboxes": 2}, content_type="application/json")
    assert body.json()["warm_sandboxes"] == 2
