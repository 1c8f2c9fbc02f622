"""What was lost is told, what was missed is rung again."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from omniweb.core.clock import now
from sandboxes.models import Execution, OutputChunk, Run, Sandbox
from sandboxes.services.reconcile import reconcile, sandboxes_compare
from sandboxes.services.sandboxes import sandbox_end, sandbox_terminate
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, work
from tests.people import People


@pytest.fixture
def run(people: People) -> Run:
    """A ready run under a policy without rules."""
    policy_use(people.agent, FREE_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Every doorbell that is rung."""
    bells: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: bells.append((name, kwargs))
    )
    return bells


def claimed(execution: Execution, state: str, *, seconds: int) -> None:
    """Leave an execution as a worker would that died; its lease ends in `seconds`."""
    Execution.objects.filter(pk=execution.pk).update(
        state=state,
        claim=uuid.uuid4(),
        lease_until=now() + timedelta(seconds=seconds),
        started_at=now(),
        sandbox=execution.run.sandboxes.get(),
    )


def test_a_command_that_was_handed_over_is_unknown_and_never_runs_again(
    people: People, run: Run
) -> None:
    lost = ask(people.agent, run, "echo once")
    claimed(lost, "running", seconds=-1)
    reconcile()
    lost.refresh_from_db()
    assert lost.state == "unknown"
    assert "may have run" in lost.reason
    assert work(lost).state == "unknown"
    last = run.trajectory.steps.order_by("-seq").filter(kind="execution_ended").first()
    assert last is not None
    assert last.payload["state"] == "unknown"


def test_what_a_lost_command_had_shown_is_kept_and_told(people: People, run: Run) -> None:
    lost = ask(people.agent, run, "echo once")
    claimed(lost, "running", seconds=-1)
    for piece in (b"half a ", b"line"):
        OutputChunk.objects.create(execution=lost, stream="stdout", data=piece)
    reconcile()
    lost = Execution.objects.select_related("stdout").get(pk=lost.pk)
    assert lost.stdout is not None
    assert bytes(lost.stdout.data) == b"half a line"
    assert lost.stdout_bytes == len(b"half a line")
    assert not lost.chunks.exists()
    told = run.trajectory.steps.get(kind="output").payload
    assert told["digest"] == lost.stdout.digest


def test_the_sandbox_of_a_lost_command_ends_because_it_may_still_run_there(
    people: People, run: Run
) -> None:
    lost = ask(people.agent, run, "sleep 600")
    claimed(lost, "running", seconds=-1)
    reconcile()
    sandbox = Sandbox.objects.select_related("run__trajectory").get()
    assert sandbox.state == "terminating"
    assert sandbox_terminate(sandbox=sandbox)
    assert Sandbox.objects.get().state == "terminated"


def test_a_command_that_was_only_claimed_is_given_to_another_worker(
    people: People, run: Run
) -> None:
    lost = ask(people.agent, run, "echo hello")
    claimed(lost, "starting", seconds=-1)
    reconcile()
    lost.refresh_from_db()
    assert (lost.state, lost.claim) == ("queued", None)
    assert work(lost).state == "finished"


def test_a_lease_that_runs_is_left_alone(people: People, run: Run) -> None:
    mine = ask(people.agent, run, "sleep 60")
    claimed(mine, "running", seconds=20)
    reconcile()
    mine.refresh_from_db()
    assert mine.state == "running"
    reconcile(workers_are_gone=True)
    mine.refresh_from_db()
    assert mine.state == "unknown"


@pytest.mark.django_db(transaction=True)
def test_a_queued_command_is_rung_again(
    people: People, run: Run, rung: list[tuple[str, dict[str, str]]]
) -> None:
    queued = ask(people.agent, run, "echo hello")
    bell = ("sandboxes.execution_run", {"execution": queued.ref})
    rung.clear()
    reconcile()
    assert bell not in rung
    Execution.objects.filter(pk=queued.pk).update(queued_at=now() - timedelta(seconds=10))
    reconcile()
    assert bell in rung


def test_a_sandbox_whose_maker_was_lost_is_replaced_for_those_who_wait(
    people: People, run: Run
) -> None:
    Sandbox.objects.update(state="provisioning", lease_until=now() - timedelta(seconds=1))
    ask(people.agent, run, "echo hello")
    reconcile()
    states = set(run_again(run).sandboxes.values_list("state", flat=True))
    assert states == {"lost", "intended"}


def test_a_client_that_is_gone_can_be_followed_by_another(people: People, run: Run) -> None:
    asked = ask(people.agent, run, "echo hello")
    Execution.objects.filter(pk=asked.pk).update(waiter_until=now() + timedelta(minutes=1))
    reconcile(workers_are_gone=True)
    asked.refresh_from_db()
    assert asked.waiter_until is not None
    assert asked.waiter_until < now()


def test_comparing_leaves_what_lives_alone(people: People, run: Run) -> None:
    work(ask(people.agent, run, "echo hello"))
    Sandbox.objects.update(ready_at=now() - timedelta(minutes=1))
    sandboxes_compare()
    assert Sandbox.objects.get().state == "ready"


def test_comparing_notes_what_is_gone(people: People, run: Run) -> None:
    Path(run.manifest["working_dir"]).rmdir()
    Sandbox.objects.update(ready_at=now() - timedelta(minutes=1))
    sandboxes_compare()
    assert Sandbox.objects.get().state == "lost"


def test_a_command_asked_while_its_sandbox_ends_gets_a_new_one(people: People, run: Run) -> None:
    sandbox = Sandbox.objects.select_related("run__trajectory").get()
    assert sandbox_end(actor=people.operator, sandbox=sandbox)
    asked = ask(people.agent, run, "echo hello")
    assert work(asked).state == "queued"
    assert sandbox_terminate(sandbox=sandbox)
    states = list(run_again(run).sandboxes.order_by("id").values_list("state", flat=True))
    assert states == ["terminated", "intended"]
