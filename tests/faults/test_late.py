"""What comes too late: acts that meet a run which has moved on since they began."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from approvals.models import Request
from approvals.services.requests import requests_expire
from omniweb.core.clock import now
from sandboxes import tasks
from sandboxes.models import Sandbox
from sandboxes.services.reconcile import reconcile
from sandboxes.services.sandboxes import sandbox_intend, sandbox_lost
from tests.factories import run_again
from tests.faults.killing import Kill, act_killed
from tests.faults.scene import Bells, Scene, later, scene_new
from tests.faults.whole import assert_whole
from tests.people import People
from trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)

# Where a worker dies: after it has claimed a command, and in the middle of running it.
CLAIMED, RUNNING = Kill("after", 1), Kill("after", 5)


@pytest.fixture
def scene(people: People, bells: Bells, tmp_path: Path) -> Scene:
    """A run that is ready."""
    return scene_new(people, bells, tmp_path)


@pytest.mark.parametrize("kill", [CLAIMED, RUNNING])
def test_a_command_whose_worker_was_lost_ends_with_its_run(
    kill: Kill, scene: Scene, tmp_path: Path
) -> None:
    asked = scene.ask()
    act_killed(lambda: tasks.execution_run(asked.ref), kill, tmp_path)
    scene.ended()
    scene.finale()
    asked.refresh_from_db()
    assert asked.state == ("cancelled" if kill is CLAIMED else "unknown")


def test_a_run_that_has_ended_gets_no_sandbox_from_one_who_knew_it_before(scene: Scene) -> None:
    before = run_again(scene.run)
    sandbox_lost(sandbox=Sandbox.objects.select_related("run").get(), reason="It went away")
    scene.ended()
    scene.rest()
    sandbox_intend(run=before)
    scene.rest()
    assert_whole()


def test_a_sandbox_is_not_made_for_a_run_that_has_ended(scene: Scene) -> None:
    scene.ask()
    lost = Sandbox.objects.select_related("run__trajectory").get()
    sandbox_lost(sandbox=lost, reason="It went away")
    scene.ended()
    wanted = Sandbox.objects.get(state="intended")
    tasks.sandbox_provision(wanted.ref)
    wanted.refresh_from_db()
    assert wanted.state == "terminated"
    scene.finale()


def test_one_request_that_cannot_expire_does_not_keep_the_others_open(
    scene: Scene, people: People, bells: Bells, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = scene.ask(asks=True)
    other = scene_new(people, bells, tmp_path, name="other").ask(asks=True)
    # Nothing we know of leads here; what is sealed can take no decision.
    Trajectory.objects.filter(pk=stuck.run.trajectory_id).update(sealed_at=now())
    Request.objects.update(expires_at=now())
    requests_expire()
    other.refresh_from_db()
    assert other.state == "expired"
    assert "cannot" in caplog.text


def test_one_row_that_cannot_be_put_right_does_not_keep_the_others_wrong(
    scene: Scene, people: People, bells: Bells, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = scene.ask()
    act_killed(lambda: tasks.execution_run(stuck.ref), RUNNING, tmp_path)
    second = scene_new(people, bells, tmp_path, name="other")
    other = second.ask()
    act_killed(lambda: tasks.execution_run(other.ref), RUNNING, tmp_path)
    Trajectory.objects.filter(pk=scene.run.trajectory_id).update(sealed_at=now())
    with later(timedelta(hours=2)):
        reconcile()
        other.refresh_from_db()
        assert other.state == "unknown"
    assert stuck.ref in caplog.text
