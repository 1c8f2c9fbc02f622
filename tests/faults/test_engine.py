"""A Docker Engine that goes away while commands wait, start and run, and comes back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection

from omniweb.core.installation import installation_id
from sandboxes import tasks
from sandboxes.models import Environment, OutputChunk, Profile
from sandboxes.providers.registry import open_provider
from tests.factories import ask
from tests.faults.scene import Bells, Scene, later, scene_new
from tests.people import People
from tests.providers.test_docker_faults import Line, line

__all__ = ["line"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.docker,
    # The SDK leaves connections that broke to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture
def scene(
    line: Line,
    people: People,
    bells: Bells,
    tmp_path: Path,
    docker_image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    """A run in a container, over a line to the engine that can be cut."""
    place = Environment.objects.create(
        team=people.team,
        name="box",
        provider="docker",
        options={"image": docker_image, "pull": "never"},
    )
    Profile.objects.update(environment=place)
    yield scene_new(people, bells, tmp_path)
    monkeypatch.delenv("DOCKER_HOST")
    open_provider("docker", {}).cleanup(installation_id())
    gc.collect()


def test_a_command_that_ran_when_the_engine_went_away_may_have_run_and_its_container_goes(
    scene: Scene, line: Line
) -> None:
    asked = ask(scene.people.agent, scene.run, "echo begun; sleep 600")
    scene.decided()
    cut_at_the_first_output(asked.pk, line)
    tasks.execution_run(asked.ref)
    asked.refresh_from_db()
    assert asked.state == "unknown"
    assert "may have run" in asked.reason
    with later():
        # It cannot be ended while nobody answers, and is not forgotten.
        scene.bells.answer()
        assert scene.run.sandboxes.get().state == "terminating"
    line.up()
    with later():
        scene.rest()
        assert scene.run.sandboxes.get().state == "terminated"
    scene.bells.rung.clear()


def cut_at_the_first_output(execution: UUID, line: Line) -> None:
    """Cut the line once a command has said something."""

    def watch() -> None:
        while not OutputChunk.objects.filter(execution=execution).exists():
            threading.Event().wait(0.1)
        connection.close()
        line.cut()

    threading.Thread(target=watch, daemon=True).start()


def test_a_command_that_could_not_be_handed_over_fails_and_the_next_one_runs(
    scene: Scene, line: Line
) -> None:
    asked = ask(scene.people.agent, scene.run, "echo hello")
    scene.decided()
    line.cut()
    tasks.execution_run(asked.ref)
    asked.refresh_from_db()
    assert asked.state == "failed"
    line.up()
    again = ask(scene.people.agent, scene.run, "echo hello")
    scene.decided()
    tasks.execution_run(again.ref)
    again.refresh_from_db()
    assert again.state == "finished"


def test_a_run_that_ends_while_the_engine_is_away_ends_when_it_is_back(
    scene: Scene, line: Line
) -> None:
    line.cut()
    scene.ended()
    scene.bells.answer()
    scene.run.refresh_from_db()
    assert scene.run.state == "finishing"
    line.up()
    with later():
        scene.rest()
    scene.run.refresh_from_db()
    assert scene.run.state == "succeeded"
