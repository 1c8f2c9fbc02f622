"""Every act of the pipeline, killed before and after every point it passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.acts import ACTS
from tests.faults.killing import Kill, act_killed
from tests.faults.scene import Bells, scene_new
from tests.people import People

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", ACTS)
def test_the_matrix_names_every_point_of(
    name: str, people: People, bells: Bells, tmp_path: Path
) -> None:
    act = ACTS[name]
    scene = scene_new(people, bells, tmp_path, cleared=act.cleared)
    passed = act_killed(act.prepare(scene), None, tmp_path)
    assert tuple(passed) == act.points
    scene.finale()


def kills(points: Sequence[str]) -> Iterator[Kill]:
    """Return where to kill an act: before each point, and after those that others could see.

    After any other point there is nothing to lose that was not there before the next one.
    """
    for index, point in enumerate(points):
        yield Kill("before", index)
        if point.startswith("provider.") or index == len(points) - 1:
            yield Kill("after", index)


MATRIX = [
    pytest.param(name, kill, id=f"{name}: {kill.when} {kill.index} {act.points[kill.index]}")
    for name, act in ACTS.items()
    for kill in kills(act.points)
]


@pytest.mark.parametrize(("name", "kill"), MATRIX)
def test_nothing_is_lost_and_nothing_starts_twice_when_a_process_dies_in(
    name: str, kill: Kill, people: People, bells: Bells, tmp_path: Path
) -> None:
    act = ACTS[name]
    scene = scene_new(people, bells, tmp_path, cleared=act.cleared)
    act_killed(act.prepare(scene), kill, tmp_path)
    scene.finale()
