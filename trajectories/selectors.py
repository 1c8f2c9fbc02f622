"""Reads of the record that more than one door needs."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.db.models import BinaryField, F, IntegerField, QuerySet
from django.db.models.functions import Cast, Greatest, Substr

from omniweb.accounts.permissions import Actor
from omniweb.core.errors import NotFound
from trajectories.models import Blob, Step, Trajectory
from trajectories.steps import StepKind


def trajectories_visible(actor: Actor) -> QuerySet[Trajectory]:
    """The records of an actor's team. Whether an agent may see one is its run's to say."""
    return Trajectory.objects.filter(team_id=actor.team_id)


def trajectory_named(actor: Actor, reference: str) -> Trajectory:
    """Return a record by its `trj_…` reference; raises NotFound."""
    return Trajectory.objects.filter(team_id=actor.team_id).by_ref(reference)


def steps_range(trajectory: Trajectory, *, start: int = 1, limit: int = 200) -> list[Step]:
    """Return up to `limit` steps in order, the first with a seq of at least `start`."""
    return list(Step.objects.filter(trajectory=trajectory, seq__gte=start).order_by("seq")[:limit])


def step_at(trajectory: Trajectory, seq: int) -> Step:
    """Return one step; raises NotFound."""
    step = Step.objects.filter(trajectory=trajectory, seq=seq).first()
    if step is None:
        raise NotFound(f"There is no step {seq} in {trajectory.ref}")
    return step


def steps_about(trajectory: Trajectory, subjects: Iterable[uuid.UUID]) -> list[Step]:
    """Return, in order, every step about any of these executions or manifests."""
    steps = Step.objects.filter(trajectory=trajectory, about__in=set(subjects)).order_by()
    # Asked to sort, SQLite walks the whole record in order and leaves the index on `about` unused.
    return sorted(steps, key=attrgetter("seq"))


def kind_counts(trajectory: Trajectory) -> dict[StepKind, int]:
    """Return how many steps there are of each kind; kept with the head, so nothing is counted."""
    return {StepKind(kind): count for kind, count in trajectory.tally.kinds.items()}


@dataclass(frozen=True)
class Excerpt:
    """The beginning of a blob, its end when both do not meet, and its whole size."""

    digest: str
    head: bytes
    tail: bytes
    size: int


def blob_excerpts(
    team_id: uuid.UUID, digests: Iterable[str], *, head: int, tail: int
) -> dict[str, Excerpt]:
    """Return the first and last bytes of blobs by digest, without reading what is between."""
    field: BinaryField[Any, Any] = BinaryField()
    # PostgreSQL cuts at an integer, not at a bigint.
    small: IntegerField[Any, Any] = IntegerField()
    # Typed by hand: the stubs take every Substr for a text.
    rows: Any = (
        Blob.objects.filter(team_id=team_id, digest__in=set(digests))
        .annotate(
            first=Substr("data", 1, head + tail, output_field=field),
            last=Substr(
                "data", Cast(Greatest(F("size") - tail + 1, 1), small), tail, output_field=field
            ),
        )
        .values_list("digest", "size", "first", "last")
    )
    excerpts = {}
    for digest, size, first, last in rows:
        is_whole = size <= head + tail
        start = bytes(first) if is_whole else bytes(first)[:head]
        excerpts[digest] = Excerpt(digest, start, b"" if is_whole else bytes(last), size)
    return excerpts
