"""Shell words: their literal value, or why they have none before the line runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node


class Word(NamedTuple):
    """A word's value, or None with the reason it is not known."""

    value: str | None
    reason: str = ""


UNREADABLE = "the shell grammar cannot read it"

# Characters of an unquoted word that make the shell do something with it.
_ACTIVE = re.compile(r"""[\\*?\[{}$`'"()<>&|;\s]|(?:^|[=:])~""")

_ACTIVE_REASONS = {
    "\\": "an escape",
    "*": "a glob",
    "?": "a glob",
    "[": "a glob",
    "{": "a brace expansion",
    "}": "a brace expansion",
    "$": "a variable",
    "`": "a command substitution",
}

_NODE_REASONS = {
    "simple_expansion": "a variable",
    "expansion": "a variable",
    "$": "a variable",
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
    "arithmetic_expansion": "an arithmetic expansion",
    "brace_expression": "a brace expansion",
    "ansi_c_string": "a $'...' string",
    "translated_string": 'a $"..." string',
    "extglob_pattern": "a glob",
    "ERROR": UNREADABLE,
}


def read_word(node: Node) -> Word:
    """Return the value of one argument of a command; never raises."""
    kind = node.type
    if kind == "word":
        return _plain(_text(node))
    if kind == "raw_string":
        return _single_quoted(_text(node)[1:-1])
    if kind == "string":
        return _double_quoted(node)
    if kind == "concatenation":
        return _joined(node)
    if kind == "number" and not node.child_count:
        return Word(_text(node))
    if kind in ("==", "=~"):
        return Word(kind)
    return Word(None, _NODE_REASONS.get(kind, kind.replace("_", " ")))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _plain(text: str) -> Word:
    found = _ACTIVE.search(text)
    if found is None:
        return Word(text)
    if "\\\n" in text:
        return Word(None, "a line continuation")
    if found[0].endswith("~"):
        return Word(None, "`~`")
    return Word(None, _ACTIVE_REASONS.get(found[0], UNREADABLE))


def _single_quoted(text: str) -> Word:
    # Some programs run such text when they read it (printf -v, test -v, array subscripts).
    if "$(" in text or "`" in text:
        return Word(None, "a command substitution inside quotes")
    return Word(text)


def _double_quoted(node: Node) -> Word:
    text = _text(node)[1:-1]
    if any(child.type not in ('"', "string_content") for child in node.children):
        return Word(None, "an expansion inside quotes")
    if "\\\n" in text:
        return Word(None, "a line continuation")
    if "\\" in text:
        return Word(None, "an escape")
    return Word(text)


def _joined(node: Node) -> Word:
    pieces: list[str] = []
    for child in node.children:
        piece = read_word(child)
        if piece.value is None:
            return piece
        pieces.append(piece.value)
    return Word("".join(pieces))
