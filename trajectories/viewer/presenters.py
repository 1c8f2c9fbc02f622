"""What the run page shows of a trajectory: a window of its steps, grouped by turn."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef
from django.urls import reverse

from trajectories.commands import is_command
from trajectories.models import Step, Trajectory
from trajectories.selectors import blob_excerpts, step_at, steps_about, steps_range
from trajectories.steps import StepKind
from trajectories.viewer.executions import (
    HEAD_BYTES,
    TAIL_BYTES,
    ExecutionView,
    execution_view,
)
from trajectories.viewer.lines import Line, line_of

WINDOW = 100
# How many windows a page may grow to by scrolling, before it goes on by a link.
MAX_WINDOWS = 10


@dataclass(kw_only=True)
class TurnView:
    """A turn and what happened in it. Turn 0 is what came before the agent did anything."""

    number: int
    is_continued: bool = False
    items: list[Line | ExecutionView] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The heading."""
        words = f"Turn {self.number}" if self.number else "Start"
        return f"{words}, continued" if self.is_continued else words


def window(
    trajectory: Trajectory, *, at: int | None = None, start: int | None = None, windows: int = 1
) -> dict[str, Any]:
    """Return the context of `trajectories/steps.html`: the window of 100 steps around step `at`.

    Without `at`, a sealed trajectory is shown from its beginning and a growing one at its end.
    An `at` beyond the end shows the end. `start` asks for the window that begins there, `windows`
    counts those on the page already; both are for the pieces a page fetches as it is read.

    The keys:

    * `trajectory`: the Trajectory; `raw_url`: where its windows and `/<seq>.json` steps are
    * `turns`: list of TurnView; its items are Line or ExecutionView (which has `command`)
    * `first`, `last`: the first and last seq the window may hold; `at`: as given
    * `earlier`: a seq before this window, `later`: where the next window starts; or None
    * `later_at`: a step to ask for by `at` to get what comes after this window, or None
    * `is_first`: whether this window is the first on the page; `windows`: which one it is
    * `is_live`: whether it must be fetched again when the topic `trajectory:trj_…` changes
    * `grows_by_itself`: whether the next window may be added when the reader comes near
    """
    first = _aligned(start) if start else _start(trajectory, at)
    last = first + WINDOW - 1
    steps = steps_range(trajectory, start=first, limit=WINDOW)
    turns, is_unfinished = _turns(trajectory, steps)
    if turns and first > 1:
        turns[0].is_continued = step_at(trajectory, first - 1).turn == turns[0].number
    is_last = last >= trajectory.head_seq
    return {
        "trajectory": trajectory,
        "raw_url": reverse("trajectory_steps", args=[trajectory.ref]),
        "turns": turns,
        "first": first,
        "last": last,
        "at": at,
        "earlier": first - 1 if first > 1 else None,
        "later": None if is_last else last + 1,
        "later_at": None if is_last else _shown_after(trajectory, last),
        "is_first": windows == 1,
        "windows": windows,
        "is_live": trajectory.sealed_at is None and (is_last or is_unfinished),
        "grows_by_itself": windows < MAX_WINDOWS,
    }


def _aligned(seq: int) -> int:
    """Return where the window with a step starts: at 1, 101, 201, …, so that none overlap."""
    return (max(seq, 1) - 1) // WINDOW * WINDOW + 1


def _start(trajectory: Trajectory, at: int | None) -> int:
    head = max(trajectory.head_seq, 1)
    if at is None:
        at = 1 if trajectory.sealed_at else head
    at = max(1, min(at, head))
    step = Step.objects.filter(trajectory=trajectory, seq=at).first()
    if step and step.about:
        # What belongs to a command is shown where the command was asked for.
        group = steps_about(trajectory, [step.about])
        at = group[0].seq if is_command(group) else at
    return _aligned(at)


def _shown_after(trajectory: Trajectory, last: int) -> int:
    """Return the first step after a window that is not shown in it, or before it, with a command."""
    steps = Step.objects.filter(trajectory=trajectory)
    begun = steps.filter(about=OuterRef("about"), seq__lte=last)
    after = steps.filter(seq__gt=last).exclude(Exists(begun)).order_by("seq")
    found: int | None = after.values_list("seq", flat=True).first()
    return found or last + 1


def _turns(trajectory: Trajectory, steps: Sequence[Step]) -> tuple[list[TurnView], bool]:
    """Return the turns of a window, and whether a command in it is still under way."""
    groups = _groups(trajectory, steps)
    commands = {about: group for about, group in groups.items() if is_command(group)}
    excerpts = blob_excerpts(
        trajectory.team_id, _digests(commands), head=HEAD_BYTES, tail=TAIL_BYTES
    )
    opened_at = _opened(groups)
    turns: list[TurnView] = []
    is_unfinished = False
    for step in steps:
        item: Line | ExecutionView
        if step.about in commands:
            group = commands[step.about]
            if group[0].seq != step.seq:
                continue
            item = execution_view(group, excerpts)
            is_unfinished |= item.is_unfinished
        else:
            item = line_of(step, opened_at.get(step.payload.get("request", "")))
        if not turns or turns[-1].number != step.turn:
            turns.append(TurnView(number=step.turn))
        _place(turns[-1], item, step)
    return turns, is_unfinished


def _groups(trajectory: Trajectory, steps: Sequence[Step]) -> dict[uuid.UUID, list[Step]]:
    groups: dict[uuid.UUID, list[Step]] = defaultdict(list)
    for step in steps_about(trajectory, {step.about for step in steps if step.about}):
        if step.about:
            groups[step.about].append(step)
    return groups


def _digests(commands: Mapping[uuid.UUID, Sequence[Step]]) -> set[str]:
    return {
        step.payload["digest"]
        for group in commands.values()
        for step in group
        if step.kind == StepKind.OUTPUT and step.payload.get("digest")
    }


def _opened(groups: Mapping[uuid.UUID, Sequence[Step]]) -> dict[str, datetime]:
    return {
        step.payload["request"]: step.at
        for group in groups.values()
        for step in group
        if step.kind == StepKind.REQUEST_OPENED
    }


def _place(turn: TurnView, item: Line | ExecutionView, step: Step) -> None:
    """Add an item to its turn; a request's end that a vote has told already joins the vote."""
    previous = turn.items[-1] if turn.items else None
    is_told = (
        step.kind == StepKind.REQUEST_DECIDED
        and isinstance(item, Line)
        and isinstance(previous, Line)
        and previous.icon in ("yes", "no")
        and step.payload["outcome"] in ("approved", "rejected")
    )
    if is_told and isinstance(previous, Line):
        turn.items[-1] = replace(previous, also=[*previous.also, step.seq])
    else:
        turn.items.append(item)
