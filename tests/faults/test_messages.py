"""Doorbells that ring twice, in the wrong order, or not at all."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from approvals.services.requests import requests_expire
from sandboxes.services.reconcile import reconcile
from tests.factories import run_again
from tests.faults.scene import Bells, Scene, later, scene_new
from tests.faults.whole import assert_whole
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene(people: People, bells: Bells, tmp_path: Path) -> Scene:
    """A run that still waits for its sandbox to be approved."""
    return scene_new(people, bells, tmp_path, cleared=False)


def muddled(bells: Bells, seed: int) -> None:
    """Answer what was rung like a broker that has lost its mind, until nothing is left."""
    chance = random.Random(seed)
    heard: list[tuple[str, dict[str, str]]] = []
    while bells.rung:
        mixed = [bell for bell in bells.rung * 2 if chance.random() > 0.2]
        heard += mixed
        # Old ones come again, too.
        mixed += chance.sample(heard, min(len(heard), 3))
        chance.shuffle(mixed)
        bells.rung.clear()
        for bell in mixed:
            bells.answered(*bell)


@pytest.mark.parametrize("seed", range(6))
def test_jobs_that_come_twice_late_and_in_any_order_do_each_thing_once(
    seed: int, scene: Scene
) -> None:
    for turn in range(4):
        scene.ask(asks=turn % 2 == 0)
    muddled(scene.bells, seed)
    scene.decided()
    muddled(scene.bells, seed)
    with later(timedelta(seconds=20)):
        reconcile()
        muddled(scene.bells, seed + 100)
    scene.ended()
    muddled(scene.bells, seed)
    scene.finale()


def by_clock_alone(scene: Scene, minutes: int) -> None:
    """Let only the reconciler ring, and lose whatever else is rung."""
    scene.bells.rung.clear()
    for turn in range(8):
        with later(timedelta(minutes=minutes, seconds=6 * turn)):
            reconcile()
            requests_expire()
            ringing = list(scene.bells.rung)
            for bell in ringing:
                scene.bells.answered(*bell)
            scene.bells.rung.clear()


def test_with_every_message_lost_the_clock_alone_brings_a_run_to_its_end(scene: Scene) -> None:
    asked = [scene.ask(), scene.ask(asks=True)]
    by_clock_alone(scene, 0)
    scene.decided()
    by_clock_alone(scene, 1)
    for one in asked:
        one.refresh_from_db()
        assert one.state == "finished", one.reason
    scene.ended()
    by_clock_alone(scene, 2)
    assert run_again(scene.run).state == "succeeded"
    assert_whole()
