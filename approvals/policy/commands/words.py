"""Shell words: their literal value, or why they have none before the line runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from approvals.policy.commands.line import Kind

if TYPE_CHECKING:
    from tree_sitter import Node

    from approvals.policy.commands.source import Source


class Word(NamedTuple):
    """A word's value (None: not known), and why it is no plain literal, if it is not."""

    value: str | None
    reason: str = ""
    kind: Kind | None = None


UNREADABLE = "the shell grammar cannot read it"
CONTINUATION = "a line continuation"
ARITHMETIC = "an arithmetic expansion"
BRACES = "a brace expansion"

# Characters of an unquoted word that make the shell do something with it; an escape hides one.
_ACTIVE = re.compile(r"""\\(?P<escaped>.?)|(?P<active>[*?\[{}$`'"()<>&|;\s])|(?:^|[=:])(?P<home>~)""", re.S)  # fmt: skip

_ACTIVE_REASONS = {
    "*": "a glob",
    "?": "a glob",
    "[": "a glob",
    "$": "a variable",
    "`": "a command substitution",
}

_NODE_REASONS = {
    "simple_expansion": "a variable",
    "expansion": "a variable",
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
    "arithmetic_expansion": ARITHMETIC,
    "brace_expression": BRACES,
    # A plain POSIX shell takes this for a dollar sign and a string.
    "ansi_c_string": "a $'...' string",
    "translated_string": 'a $"..." string',
    "extglob_pattern": "a glob",
    "ERROR": UNREADABLE,
}

_LITERAL = Kind.SHAPE
_STRENGTH = {None: 0, Kind.SHAPE: 1, Kind.VALUE: 2, Kind.CODE: 3}

# What is left of a backslash inside double quotes.
_QUOTED_ESCAPE = re.compile(r'\\([$`"\\\n])')
# A parameter expansion that only reads a variable, with a plain default or pattern at most.
_PLAIN_EXPANSION = re.compile(r"\$\{#?\w+(?:(?::?[-+?]|##?|%%?|\^\^?|,,?)[^$`}]*)?\}")


def read_word(node: Node, source: Source) -> Word:
    """Return the value of one argument of a command in a script; never raises."""
    kind = node.type
    if kind == "word":
        return _plain(source.text(node))
    if kind == "raw_string":
        return Word(source.text(node)[1:-1])
    if kind == "string":
        return _double_quoted(node, source)
    if kind == "concatenation":
        return _joined(node, source)
    if kind == "number" and not node.child_count:
        return Word(source.text(node))
    if kind in ("==", "=~", "$"):
        return Word(kind)
    return Word(None, _NODE_REASONS.get(kind, kind.replace("_", " ")), _unknown_kind(node, source))


def _unknown_kind(node: Node, source: Source) -> Kind:
    if node.type == "expansion":
        return Kind.VALUE if _PLAIN_EXPANSION.fullmatch(source.text(node)) else Kind.CODE
    if node.type == "arithmetic_expansion":
        return arithmetic_kind(source.text(node))
    return Kind.VALUE if node.type in _NODE_REASONS and node.type != "ERROR" else Kind.CODE


def arithmetic_kind(text: str) -> Kind:
    """Tell whether arithmetic only counts; with names in it, text in a variable may run."""
    return Kind.CODE if re.search(r"[A-Za-z_$`\[]", text) else Kind.VALUE


def _plain(text: str, *, braces: bool = False) -> Word:
    """Return an unquoted word; `braces` when it is one of several pieces."""
    reason = ""
    pieces: list[str] = []
    at = 0
    for found in _ACTIVE.finditer(text):
        if found["active"] is not None:
            reason = _ACTIVE_REASONS.get(found[0], "")
            if not reason and found[0] not in "{}":
                return Word(None, UNREADABLE, Kind.CODE)
            if reason:
                return Word(None, reason, Kind.VALUE if found[0] in "*?[" else Kind.CODE)
        elif found["home"]:
            return Word(None, "`~`", Kind.VALUE)
        elif found["escaped"] is not None:
            pieces.append(text[at : found.start()])
            at = found.end()
            joins = found["escaped"] == "\n"
            pieces.append("" if joins else found["escaped"])
            reason = CONTINUATION if joins else reason or "an escape"
    if not braces and _expands(text):
        return Word(None, BRACES, Kind.VALUE)
    reason = reason or (BRACES if "{" in text or "}" in text else "")
    return Word("".join([*pieces, text[at:]]), reason, _LITERAL if reason else None)


def _expands(text: str) -> bool:
    """Tell whether braces hold a list or a range, which makes several words of one."""
    depth = 0
    for at, char in enumerate(text):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif depth > 0 and (char == "," or text.startswith("..", at)):
            return "}" in text[at:]
    return False


def _double_quoted(node: Node, source: Source) -> Word:
    text = source.text(node)[1:-1]
    if "$[" in text:
        return Word(None, ARITHMETIC, Kind.CODE)
    kinds = [
        _unknown_kind(child, source)
        for child in node.children
        if child.type not in ('"', "string_content", "$")
    ]
    if kinds:
        kind = Kind.CODE if Kind.CODE in kinds else Kind.VALUE
        return Word(None, "an expansion inside quotes", kind)
    if "\\" not in text:
        return Word(text)
    value = _QUOTED_ESCAPE.sub(lambda found: found[1].strip("\n"), text)
    return Word(value, CONTINUATION if "\\\n" in text else "an escape", _LITERAL)


def _joined(node: Node, source: Source) -> Word:
    pieces = [
        _plain(source.text(child), braces=True)
        if child.type == "word"
        else read_word(child, source)
        for child in node.children
    ]
    if any(child.type == "$" for child in node.children[:-1]):
        # A dollar sign before quotes makes them another kind of quotes.
        return Word(None, "a variable", Kind.VALUE)
    worst = max(pieces, key=lambda piece: _STRENGTH[piece.kind])
    if any(piece.value is None for piece in pieces):
        return Word(None, worst.reason, worst.kind or Kind.VALUE)
    # Only unquoted braces expand; where quotes make that hard to tell, the value is unknown.
    if any(
        child.type == "word" and "{" in source.text(child) for child in node.children
    ) and _expands(source.text(node)):
        return Word(None, BRACES, Kind.VALUE)
    return Word("".join(piece.value or "" for piece in pieces), worst.reason, worst.kind)
