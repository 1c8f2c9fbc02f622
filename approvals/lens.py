"""The lens: the exact text of a command, each part marked with what the policy says of it.

Every character is shown. A part that was not understood is marked as such, never left out.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from approvals.policy.commands.parse import read_command
from approvals.policy.explain import NO_RULE

Data = Mapping[str, Any]

# How an effect is drawn: the class of its mark, the tone and icon of its pill, its word.
_LOOKS = {
    "deny": ("no", "bad", "no", "denied"),
    "unknown": ("unk", "unsure", "unsure", "not understood"),
    "ask": ("ask", "wait", "wait", "asks"),
    "uncovered": ("ask", "wait", "wait", "no rule"),
    "allow": ("ok", "good", "yes", "allowed"),
}
# Of two parts with the same span, the one that a reader must not miss.
_LOUDEST = list(_LOOKS)


@dataclass(frozen=True, kw_only=True)
class PartView:
    """One row of the table under the text, and the mark in it."""

    number: int
    text: str
    effect: str
    rule: str
    why: str
    does: str = ""
    through: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The class of its mark."""
        return _LOOKS[self.effect][0]

    @property
    def tone(self) -> str:
        """The tone of its pill."""
        return _LOOKS[self.effect][1]

    @property
    def icon(self) -> str:
        """The icon of its pill."""
        return _LOOKS[self.effect][2]

    @property
    def verdict(self) -> str:
        """What the policy says of it, with the rule that says it."""
        word = _LOOKS[self.effect][3]
        if self.effect in ("unknown", "uncovered"):
            return word
        return f"{word} · {self.rule or 'by default'}"


@dataclass(frozen=True)
class Piece:
    """A stretch of the text; `part` is None between the parts."""

    text: str
    part: PartView | None = None


@dataclass(frozen=True, kw_only=True)
class Lens:
    """A text cut at the edges of its parts; `shell` is what reads the text, if it is a script."""

    shell: str
    pieces: list[Piece]
    parts: list[PartView]

    @property
    def unread(self) -> int:
        """How many parts were not understood."""
        return sum(part.effect == "unknown" for part in self.parts)


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    part: PartView

    @property
    def rank(self) -> tuple[int, int]:
        # The innermost part says most; of two alike, the loudest.
        return self.end - self.start, _LOUDEST.index(self.part.effect)


def command_lens(argv: Sequence[str], command: str, parts: Sequence[Data]) -> Lens:
    """Return the lens of a command.

    `command` is its text as people write it, `parts` are those of the decision's explanation:
    their positions count in the script of a shell, or in the words of `argv` joined by spaces.
    """
    read = read_command(tuple(argv)).text
    is_script = len(argv) > 1 and read in argv[1:] and read != " ".join(argv)
    text = read if is_script else command
    spans = _spans(text, parts, has_positions=text == read)
    shell = shlex.join(word for word in argv if word != read) if is_script else ""
    rows = [span.part for span in spans] or [_nothing_read(text)]
    return Lens(shell=shell, pieces=list(_pieces(text, spans)), parts=rows)


def _nothing_read(text: str) -> PartView:
    why = "nothing is known about it"
    return PartView(number=1, text=text, effect="unknown", rule="", why=why)


def _spans(text: str, parts: Sequence[Data], *, has_positions: bool) -> list[_Span]:
    placed = [(*_place(text, part, has_positions), part) for part in parts]
    # In reading order, an outer part before those inside it.
    placed.sort(key=lambda item: (item[0], -item[1]))
    return [
        _Span(start, end, _part_view(number, part))
        for number, (start, end, part) in enumerate(placed, start=1)
    ]


def _place(text: str, part: Data, has_positions: bool) -> tuple[int, int]:
    """Return where a part stands; the whole text when that cannot be told.

    Masked secrets move what follows them, so a position is believed only if the text is there.
    """
    start, end, said = part.get("start", 0), part.get("end", 0), part.get("text", "")
    if not has_positions:
        return 0, len(text)
    if 0 <= start < end <= len(text) and (part.get("reached") or text[start:end] == said):
        return start, end
    if said and text.count(said) == 1:
        start = text.index(said)
        return start, start + len(said)
    return 0, len(text)


def _part_view(number: int, part: Data) -> PartView:
    effect, why = part.get("effect"), part.get("why") or ""
    if effect not in _LOOKS:
        effect = "unknown"
    return PartView(
        number=number,
        text=part.get("text", ""),
        effect="uncovered" if effect == "unknown" and why == NO_RULE else effect,
        rule=part.get("rule_id") or "",
        why=why,
        does=part.get("does") or "",
        through=tuple(part.get("reached") or ()),
    )


def _pieces(text: str, spans: Sequence[_Span]) -> Iterator[Piece]:
    """Cut the text at every edge; `spans` come in reading order, so one sweep sees them all."""
    edges = sorted({0, len(text), *(edge for span in spans for edge in (span.start, span.end))})
    waiting = deque(spans)
    around: list[_Span] = []
    for start, end in pairwise(edges):
        while waiting and waiting[0].start <= start:
            around.append(waiting.popleft())
        around = [span for span in around if span.end > start]
        yield Piece(text[start:end], _shown(around))


def _shown(around: Sequence[_Span]) -> PartView | None:
    """Return the part whose mark a stretch carries: the innermost around it.

    An allowed part inside text that was not understood is no comfort, so there the text wins.
    """
    inner = min(around, key=lambda span: span.rank, default=None)
    if inner is None or inner.part.effect != "allow":
        return inner.part if inner else None
    unread = [span for span in around if span.part.effect == "unknown"]
    return min(unread, key=lambda span: span.rank).part if unread else inner.part
