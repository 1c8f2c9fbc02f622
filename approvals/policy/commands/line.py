"""What was read of a command line: its simple commands, and the parts nobody could read."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple


class SimpleCommand(NamedTuple):
    """One program with its words, as a line would run it.

    `words` are literal; None stands for a word whose value is not known before it runs.
    `reached` says through what it runs, outermost first; empty for a command of a plain chain.
    `start` and `end` are character positions in the text of the whole line.
    """

    words: tuple[str | None, ...]
    text: str
    start: int
    end: int
    reached: tuple[str, ...] = ()

    @property
    def program(self) -> str | None:
        """The program's name without its folder; None when it is not known."""
        first = self.words[0] if self.words else None
        return None if first is None else first.rpartition("/")[2]

    @property
    def bare(self) -> bool:
        """Whether every word is known and the program is named without a folder."""
        return None not in self.words and "/" not in (self.words[0] or "/")


class OpaquePart(NamedTuple):
    """Text that could not be read, with the reason in words a person understands."""

    reason: str
    text: str
    start: int
    end: int


class CommandLine(NamedTuple):
    """Everything read of one argv: `text` is the script, or the words joined by spaces."""

    text: str
    commands: tuple[SimpleCommand, ...]
    opaque: tuple[OpaquePart, ...] = ()

    @property
    def opaque_reasons(self) -> tuple[str, ...]:
        """Each reason once, in the order met."""
        return tuple(dict.fromkeys(part.reason for part in self.opaque))

    @property
    def programs(self) -> tuple[str, ...]:
        """The name of each program the line is known to run, once."""
        names = (command.program for command in self.commands)
        return tuple(dict.fromkeys(name for name in names if name))

    def summary(self) -> tuple[str, ...]:
        """Return the lines to show a person: one per command, or the whole text when opaque."""
        if self.opaque:
            return (visible(self.text),)
        return tuple(visible(item.text) for item in self.commands if not item.reached)


def visible(text: str) -> str:
    r"""Return text with control, bidirectional and invisible characters written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if _is_hidden(char) else char for char in text)


def _is_hidden(char: str) -> bool:
    # Cc control, Cf format (bidi, zero width), Cs surrogate, Zl/Zp separators, Co private use.
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co"}


def _escaped(char: str) -> str:
    named = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}.get(char)
    if named:
        return named
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
