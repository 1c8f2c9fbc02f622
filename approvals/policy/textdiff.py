"""How one text became another, line by line, with what stayed the same left out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

CONTEXT = 3
# Comparing takes time that grows with the product of both; beyond this a stretch is shown whole.
MAX_COMPARED = 4_000

type Span = tuple[int, int, int, int]


class DiffLine(NamedTuple):
    """A line with its numbers before and after, from 1; of a `gap` the text says how much it skips."""

    kind: Literal["same", "add", "del", "gap"]
    before: int | None
    after: int | None
    text: str


def text_diff(before: str, after: str) -> list[DiffLine]:
    """Return the lines that differ with a few around them; nothing when the texts are equal."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    at = 0
    spans = list(_changes(old, new))
    for index, (start, end, new_start, new_end) in enumerate(spans):
        following = spans[index + 1][0] if index + 1 < len(spans) else len(old)
        lines += _same(old, at, start, new_start - start, is_first=index == 0)
        lines += [DiffLine("del", at + 1, None, old[at]) for at in range(start, end)]
        lines += [DiffLine("add", None, at + 1, new[at]) for at in range(new_start, new_end)]
        at = end
        if index + 1 == len(spans):
            lines += _same(old, end, following, new_end - end, is_last=True)
    return lines


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Span]:
    """Yield the stretches that differ, as (start, end) in the old and in the new lines."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left and not right:
        return
    if max(len(left), len(right)) > MAX_COMPARED:
        yield head, head + len(left), head, head + len(right)
        return
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield start + head, end + head, new_start + head, new_end + head


def _same(
    old: Sequence[str],
    start: int,
    end: int,
    shift: int,
    *,
    is_first: bool = False,
    is_last: bool = False,
) -> Iterator[DiffLine]:
    """Yield the lines between two changes, the middle of them as a gap."""
    before_gap = 0 if is_first else CONTEXT
    after_gap = 0 if is_last else CONTEXT
    skipped = end - start - before_gap - after_gap
    if skipped <= 1:
        before_gap, after_gap, skipped = end - start, 0, 0
    for at in range(start, start + before_gap):
        yield DiffLine("same", at + 1, at + 1 + shift, old[at])
    if skipped:
        yield DiffLine("gap", None, None, f"{skipped} lines that are the same")
    for at in range(end - after_gap, end):
        yield DiffLine("same", at + 1, at + 1 + shift, old[at])
