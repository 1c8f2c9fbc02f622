"""Clocks that jump by an hour, forwards and back, while things go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from sandboxes import tasks
from sandboxes.models import Execution, Sandbox
from sandboxes.services.reconcile import reconcile
from sandboxes.services.sandboxes import sandbox_lost
from tests.factories import ask, run_again
from tests.faults.killing import Kill, act_killed
from tests.faults.scene import Bells, Scene, later, scene_new
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


@pytest.fixture
def scene(people: People, bells: Bells, tmp_path: Path) -> Scene:
    """A run that is ready."""
    return scene_new(people, bells, tmp_path)


def state_of(execution: Execution) -> str:
    """Return where a command stands now."""
    execution.refresh_from_db()
    return execution.state


@pytest.fixture
def running(scene: Scene) -> Callable[[str], tuple[Execution, threading.Thread]]:
    """Have a worker thread run a command, and come back once it runs."""

    def begin(script: str) -> tuple[Execution, threading.Thread]:
        begun = scene.folder / "begun"
        asked = ask(scene.people.agent, scene.run, f"touch {begun}; {script}")
        scene.decided()

        def work() -> None:
            tasks.execution_run(asked.ref)
            connection.close()

        worker = threading.Thread(target=work)
        worker.start()
        while not begun.exists():
            threading.Event().wait(0.01)
        return asked, worker

    return begin


def test_a_jump_ahead_loses_no_request_and_no_run_that_waits_for_one(scene: Scene) -> None:
    asked = scene.ask(asks=True)
    with later(HOUR + timedelta(seconds=1)):
        scene.rest()
        assert (state_of(asked), run_again(scene.run).state) == ("waiting", "waiting")
        scene.decided()
        scene.rest()
        assert state_of(asked) == "finished"
    scene.finale()


def test_a_jump_ahead_gives_up_a_running_command_and_stops_it(
    scene: Scene, running: Callable[[str], tuple[Execution, threading.Thread]]
) -> None:
    asked, worker = running("sleep 60")
    with later(HOUR - timedelta(minutes=5)):
        scene.rest()
        assert state_of(asked) == "unknown"
        worker.join(10)
        assert not worker.is_alive()
    scene.finale()


def test_a_jump_back_leaves_a_running_command_alone(
    scene: Scene, running: Callable[[str], tuple[Execution, threading.Thread]], settings: Any
) -> None:
    settings.LEASE_SECONDS = 3
    asked, worker = running("sleep 5")
    with later(-HOUR):
        for _ in range(9):
            reconcile()
            assert state_of(asked) in ("running", "finished")
            worker.join(0.5)
        worker.join(10)
    assert state_of(asked) == "finished"
    scene.finale()


@pytest.mark.parametrize(("kill", "state"), [(1, "finished"), (5, "unknown")])
def test_after_a_jump_back_a_lost_worker_is_noticed_as_soon_as_ever(
    kill: int, state: str, scene: Scene, tmp_path: Path
) -> None:
    asked = scene.ask()
    act_killed(lambda: tasks.execution_run(asked.ref), Kill("after", kill), tmp_path)
    with later(-HOUR):
        scene.rest()
    with later(timedelta(seconds=31) - HOUR):
        scene.rest()
    assert state_of(asked) == state
    scene.finale()


def test_after_a_jump_back_a_sandbox_whose_maker_was_lost_is_replaced(
    scene: Scene, tmp_path: Path
) -> None:
    asked = scene.ask()
    sandbox_lost(sandbox=Sandbox.objects.select_related("run__trajectory").get(), reason="Gone")
    wanted = Sandbox.objects.get(state="intended")
    act_killed(lambda: tasks.sandbox_provision(wanted.ref), Kill("after", 1), tmp_path)
    with later(-HOUR):
        reconcile()
        scene.bells.answer()
    assert state_of(asked) == "queued"
    with later(timedelta(minutes=11) - HOUR):
        scene.rest()
    assert state_of(asked) == "finished"
    scene.finale()


def test_after_a_jump_back_what_was_not_rung_is_rung_at_once(scene: Scene) -> None:
    asked = scene.ask()
    scene.bells.rung.clear()
    with later(-HOUR):
        scene.rest()
    assert state_of(asked) == "finished"
    scene.finale()
