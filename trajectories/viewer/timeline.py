"""The minimap: one bar per step, or per group of steps when there are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from trajectories.flags import Flag
from trajectories.models import Trajectory

HEIGHT = 36
_SPACING, _BAR = 6, 4


class _Look(NamedTuple):
    tone: str
    height: int
    words: str


_LOOKS: dict[Flag, _Look] = {
    Flag.PLAIN: _Look("plain", 8, "nothing special"),
    Flag.TALK: _Look("text", 14, "words"),
    Flag.GOOD: _Look("good", 18, "went well"),
    Flag.WAIT: _Look("wait", 26, "people were asked"),
    Flag.UNSURE: _Look("unsure", 26, "uncertain"),
    Flag.BAD: _Look("bad", 26, "denied, rejected or failed"),
}


@dataclass(frozen=True)
class Bar:
    """One bar: its place, its flag, and the steps it stands for."""

    index: int
    flag: Flag
    first: int
    last: int

    @property
    def label(self) -> str:
        """What a pointer or a screen reader gets."""
        one = self.first == self.last
        where = f"Step {self.first}" if one else f"Steps {self.first} to {self.last}"
        return f"{where}: {_LOOKS[self.flag].words}"


@dataclass(frozen=True)
class Strip:
    """All bars and the width they are drawn in."""

    width: int
    bars: list[Bar]

    @property
    def drawing(self) -> SafeString:
        """The bars as SVG; those worth a look are links, the others one path.

        Made here and not in the template because it has up to MAX_BARS pieces. Nothing in it
        comes from outside.
        """
        plain, links = [], []
        for bar in self.bars:
            look = _LOOKS[bar.flag]
            x, y = bar.index * _SPACING, (HEIGHT - look.height) // 2
            if bar.flag is Flag.PLAIN:
                plain.append(f"M{x} {y}h{_BAR}v{look.height}h-{_BAR}z")
                continue
            # Keyboards stop where something was asked or went wrong, pointers anywhere.
            skip = "" if bar.flag >= Flag.WAIT else ' tabindex="-1"'
            links.append(
                f'<a href="?at={bar.first}#s{bar.first}"{skip}><title>{bar.label}</title>'
                f'<rect class="{look.tone}" x="{x}" y="{y}" width="{_BAR}"'
                f' height="{look.height}" rx="1"/></a>'
            )
        path = f'<a tabindex="-1"><path d="{"".join(plain)}"/></a>'
        return mark_safe(path + "".join(links))  # noqa: S308 - numbers and our own words


def strip_of(trajectory: Trajectory) -> Strip:
    """Return the minimap; at most tally.MAX_BARS bars, whatever the number of steps."""
    tally = trajectory.tally
    bars = []
    for index, digit in enumerate(tally.strip):
        first = index * tally.width + 1
        last = min(first + tally.width - 1, trajectory.head_seq)
        bars.append(Bar(index=index, flag=Flag(int(digit)), first=first, last=last))
    # A short run is not stretched over the whole width.
    return Strip(width=max(len(bars), 100) * _SPACING - (_SPACING - _BAR), bars=bars)
