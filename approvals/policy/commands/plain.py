"""A short way for the simplest lines: chains of bare or fully quoted words, as most commands are.

Must give what the grammar gives for the same line (tests/policy/test_plain.py holds them together);
anything it is not sure of it leaves to the grammar by answering None.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from approvals.policy.commands.shells import KEYWORDS

_PROGRAM = r"[A-Za-z0-9_./][A-Za-z0-9_./\-]*"
_BARE = r"[A-Za-z0-9_./@%+,:^\-]+(?:=[A-Za-z0-9_./@%+,:^\-]*)?"
# Printable ASCII without quotes, backquote, backslash and dollar.
_QUOTABLE = r"[ !#%&(-[\]-_a-~]*"
_WORD = rf"""(?:{_BARE}|'{_QUOTABLE}'|"{_QUOTABLE}")"""
_COMMAND = rf"{_PROGRAM}(?: +{_WORD})*"
_COMMANDS = re.compile(_COMMAND)
_WORDS = re.compile(_WORD)
_CHAIN = re.compile(rf" *{_COMMAND}(?: *(?:&&|\|\|?|;) *{_COMMAND})* *")

# Words the grammar reads as something else than a program.
_NOT_PROGRAMS = KEYWORDS | {
    "declare", "typeset", "export", "readonly", "local", "unset", "unsetenv",
}  # fmt: skip


class PlainCommand(NamedTuple):
    """One command's words and where it stands in the line."""

    words: tuple[str, ...]
    text: str
    start: int
    end: int


def plain_chain(script: str) -> list[PlainCommand] | None:
    """Return the commands of a chain of simple words, None for any other line."""
    if _CHAIN.fullmatch(script) is None:
        return None
    found = []
    for match in _COMMANDS.finditer(script):
        text = match[0]
        words = tuple(_value(word) for word in _WORDS.findall(text))
        if words[0] in _NOT_PROGRAMS:
            return None
        found.append(PlainCommand(words, text, match.start(), match.end()))
    return found


def _value(word: str) -> str:
    return word[1:-1] if word[0] in "'\"" else word
