"""Whose turn it is where there is no room for all: agents take turns, each first come, first served."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import UTC, datetime

_NEVER = datetime.min.replace(tzinfo=UTC)


def in_turn[A: Hashable, K](
    waiting: Iterable[tuple[A, K]], served_at: Mapping[A, datetime]
) -> list[K]:
    """Return who waits, in the order of being served.

    `waiting` are agents and what they wait with, first come first; `served_at` is when each agent
    was served last. One that was never is next, and nobody is served twice before all are once.
    """
    lines: dict[A, list[K]] = {}
    for agent, key in waiting:
        lines.setdefault(agent, []).append(key)
    # Sorting keeps those who were never served as they came.
    order = sorted(lines, key=lambda agent: served_at.get(agent, _NEVER))
    longest = max(map(len, lines.values()), default=0)
    return [lines[agent][at] for at in range(longest) for agent in order if at < len(lines[agent])]
