"""What was read of a command line: its simple commands, and the parts nobody could read."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import NamedTuple

type Words = tuple[str | None, ...]


class Kind(StrEnum):
    """What a part beyond a chain of literal words means for what can be proven of its line."""

    # It may run anything.
    CODE = "code"
    # A value nobody knows before the line runs.
    VALUE = "value"
    # Read in full, and covered only by a rule that speaks of it.
    WRITE = "write"
    ENV = "env"
    # Read in full: the commands inside are all there is to it.
    SHAPE = "shape"


PROVABLE = frozenset({Kind.WRITE, Kind.ENV, Kind.SHAPE})


class Risk(NamedTuple):
    """An argument that makes a program do more than its name says.

    `at` is the position of the word; a rule that spells that word out covers it. `target` is the
    file a WRITE goes to, None when it is not known. `opaque` when it is the shell itself, or a
    program that only starts others, that may run anything by it.
    """

    at: int
    does: str
    kind: Kind = Kind.CODE
    target: str | None = None
    opaque: bool = False


# The place of a risk no rule can spell out.
NOWHERE = 1_000_000


class SimpleCommand(NamedTuple):
    """One program with its words, as a line would run it.

    `words` are literal; None stands for a word whose value is not known before it runs.
    `reached` says through what it runs, outermost first; empty for a command of a plain chain.
    `start` and `end` are character positions in the text of the whole line. `writes` are the
    files its output is redirected to (None: unknown), `env` the variables set for it.
    """

    words: Words
    text: str
    start: int
    end: int
    reached: tuple[str, ...] = ()
    writes: Words = ()
    env: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()

    @property
    def program(self) -> str | None:
        """The program's name without its folder; None when it is not known."""
        first = self.words[0] if self.words else None
        return None if first is None else first.rpartition("/")[2]

    @property
    def bare(self) -> bool:
        """Whether the program is known and named without a folder."""
        return bool(self.words) and "/" not in (self.words[0] or "/")


class OpaquePart(NamedTuple):
    """Text beyond a chain of literal words, with the reason in words a person understands."""

    reason: str
    text: str
    start: int
    end: int
    kind: Kind = Kind.CODE


class CommandLine(NamedTuple):
    """Everything read of one argv: `text` is the script, or the words joined by spaces."""

    text: str
    commands: tuple[SimpleCommand, ...]
    opaque: tuple[OpaquePart, ...] = ()

    @property
    def provable(self) -> bool:
        """Whether all of the line was read, so that rules can cover every part of it."""
        return all(part.kind in PROVABLE for part in self.opaque)

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
    return "".join(_escaped(char) if is_hidden(char) else char for char in text)


def is_hidden(char: str) -> bool:
    """Tell whether a character shows nothing, or changes how those around it show."""
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
