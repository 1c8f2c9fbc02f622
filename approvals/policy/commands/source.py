"""One script given to the grammar, and where its parts stand in the whole line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import tree_sitter
import tree_sitter_bash
from tree_sitter import Node

from approvals.policy.commands.words import CONTINUATION, UNREADABLE

_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())

# Tokens whose inside is text, blanks included.
_WHOLE = frozenset({"string", "raw_string", "heredoc_body"})

_UNUSUAL = (b"\r", b"\v", b"\f", b"\xc2")


class Place(NamedTuple):
    """Where something stands in the whole line, and through what it is reached."""

    text: str
    start: int
    end: int
    reached: tuple[str, ...] = ()

    def inside(self, through: str) -> Place:
        """Return the same place, reached through one thing more."""
        return Place(self.text, self.start, self.end, (*self.reached, through))


# The scanner of the grammar looks characters up in tables of 256 and reads past their end for
# wider ones, which can end the process; so it is given stand-ins, as many as there were.
_WIDE = re.compile("[^\0-\xff]")


def _narrow(found: re.Match[str]) -> str:
    return "\xa0" if found[0].isspace() else "\xff"


class Source:
    """A parsed script; parts of a quoted script stand where its text does in the line."""

    __slots__ = ("_positions", "data", "root", "script", "whole")

    def __init__(self, script: str, whole: Place | None) -> None:
        self.script = script
        self.whole = whole
        self._positions: list[int] | None = None
        shown = script
        if not script.isascii():
            shown = _WIDE.sub(_narrow, script)
            widths = ((at,) if char < "\x80" else (at, at) for at, char in enumerate(shown))
            self._positions = [at for pair in widths for at in pair] + [len(shown)]
        self.data = shown.encode()
        self.root = tree_sitter.Parser(_LANGUAGE).parse(self.data).root_node

    def _span(self, node: Node) -> tuple[int, int]:
        if self._positions is None:
            return node.start_byte, node.end_byte
        return self._positions[node.start_byte], self._positions[node.end_byte]

    def text(self, node: Node) -> str:
        """Return the text of a node, as it stands in the script."""
        start, end = self._span(node)
        return self.script[start:end]

    def place(self, node: Node, reached: tuple[str, ...] = ()) -> Place:
        """Return where a node stands in the whole line."""
        start, end = self._span(node)
        text = self.script[start:end]
        if self.whole is not None:
            return Place(text, self.whole.start, self.whole.end, reached)
        return Place(text, start, end, reached)

    def unread(self) -> str | None:
        """Return why the grammar's reading is not to be trusted, None when it is.

        The grammar skips more between two tokens than a shell does: other white space, escaped
        blanks, and now and then a word it has no place for.
        """
        if self.root.has_error:
            return UNREADABLE
        for gap in self._gaps():
            # A backslash and a newline vanish; only the blanks beside them separate words.
            rest = gap.replace(b"\\\n", b"")
            if rest.strip(b" \t\n") or not rest:
                unusual = gap.strip(b" \t\n")[:1] in _UNUSUAL
                return "an unusual blank" if unusual else self._cut(gap)
        return None

    def continues(self) -> bool:
        """Tell whether an escaped newline separates some of the words."""
        return b"\\\n" in self.data and any(b"\\\n" in gap for gap in self._gaps())

    @staticmethod
    def _cut(gap: bytes) -> str:
        return CONTINUATION if gap[:1] == b"\\" else UNREADABLE

    def _gaps(self) -> Iterator[bytes]:
        """Yield what stands between two tokens, where it is more than blanks."""
        at = 0
        for start, end in [*_leaves(self.root), (len(self.data), len(self.data))]:
            gap = self.data[at:start]
            if gap.strip(b" \t\n"):
                yield gap
            at = max(at, end)


def _leaves(root: Node) -> Iterator[tuple[int, int]]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count and node.type not in _WHOLE:
            stack.extend(reversed(node.children))
        else:
            yield node.start_byte, node.end_byte
