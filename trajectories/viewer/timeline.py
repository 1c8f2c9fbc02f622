"""The minimap: one bar per step, or per group of steps when there are many."""

from __future__ import annotations

from dataclasses import dataclass

from trajectories.flags import Flag
from trajectories.models import Trajectory

HEIGHT = 36
_SPACING, _BAR = 6, 4
# (class of the bar, its height, what it says)
_LOOKS: dict[Flag, tuple[str, int, str]] = {
    Flag.PLAIN: ("plain", 8, "a step"),
    Flag.TALK: ("text", 14, "a message"),
    Flag.GOOD: ("good", 18, "went well"),
    Flag.WAIT: ("wait", 26, "people were asked"),
    Flag.UNSURE: ("unsure", 26, "uncertain"),
    Flag.BAD: ("bad", 26, "denied, rejected or failed"),
}


@dataclass(frozen=True)
class Bar:
    """One bar: where it is drawn, what class it has, and the steps it stands for."""

    x: int
    y: int
    height: int
    tone: str
    first: int
    last: int
    label: str


@dataclass(frozen=True)
class Strip:
    """All bars and the width they are drawn in."""

    width: int
    bars: list[Bar]


def strip_of(trajectory: Trajectory) -> Strip:
    """Return the minimap; at most tally.MAX_BARS bars, whatever the number of steps."""
    tally = trajectory.tally
    bars = []
    for index, digit in enumerate(tally.strip):
        tone, height, words = _LOOKS[Flag(int(digit))]
        first = index * tally.width + 1
        last = min(first + tally.width - 1, trajectory.head_seq)
        where = f"Step {first}" if first == last else f"Steps {first} to {last}"
        bars.append(
            Bar(
                x=index * _SPACING,
                y=(HEIGHT - height) // 2,
                height=height,
                tone=tone,
                first=first,
                last=last,
                label=f"{where}: {words}",
            )
        )
    # A short run is not stretched over the whole width.
    return Strip(width=max(len(bars), 100) * _SPACING - (_SPACING - _BAR), bars=bars)
