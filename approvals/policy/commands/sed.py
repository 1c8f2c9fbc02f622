"""What a sed script runs and writes, read command by command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Commands without text of their own; a number may follow some.
_SINGLE = re.compile(r"[dDgGhHnNpPxzF=lLqQ]\s*\d*")
_LABEL = re.compile(r"[btT]\s*[^;\n}]*|:[^;\n]*")
_REST = re.compile(r"[^\n]*")
_TEXT = re.compile(r"(?:\\\n|[^\n])*")
_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$|[+~]\d+")
_BETWEEN = re.compile(r"[\s;{}]*")


class SedEffect(NamedTuple):
    """A command of the script that does more than edit text; `runs` is shell text."""

    does: str
    runs: str | None = None
    writes: str | None = None


class _Unreadable(Exception):
    """The script is not what this reader knows."""


def sed_effects(script: str) -> Iterator[SedEffect]:
    """Yield what a script does besides editing; never raises."""
    try:
        yield from _Script(script).effects()
    except _Unreadable:
        yield SedEffect("a sed script that could not be read")


class _Script:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def effects(self) -> Iterator[SedEffect]:
        while True:
            self._take(_BETWEEN)
            if self.at >= len(self.text):
                return
            self._addresses()
            yield from self._command()

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _addresses(self) -> None:
        while True:
            self._skip(" \t,!")
            mark = self._peek()
            if mark == "/":
                self._delimited("/")
            elif mark == "\\":
                self.at += 1
                self._delimited(self._peek())
            elif not self._take(_ADDRESS):
                return
            self._skip("IM")

    def _skip(self, chars: str) -> None:
        while self._peek() and self._peek() in chars:
            self.at += 1

    def _delimited(self, mark: str) -> str:
        """Take what stands between two marks; the first is the next character."""
        start = self.at = self.at + 1
        while self._peek() not in ("", mark):
            if self._peek() == "[" and mark != "[":
                self._bracket()
            else:
                self.at += 2 if self._peek() == "\\" else 1
        if not mark or not self._peek():
            raise _Unreadable
        self.at += 1
        return self.text[start : self.at - 1]

    def _bracket(self) -> None:
        # Inside brackets the mark is one character among others.
        close = re.compile(r"\[\^?\]?(?:\[[:.=][^\]]*\]|[^\]\n])*\]").match(self.text, self.at)
        self.at = close.end() if close else self.at + 1

    def _replacement(self, mark: str) -> None:
        while self._peek() not in ("", mark):
            self.at += 2 if self._peek() == "\\" else 1
        if not self._peek():
            raise _Unreadable
        self.at += 1

    def _command(self) -> Iterator[SedEffect]:
        name = self._peek()
        if name in ("", "}", ";", "{"):
            return
        if name == "s":
            yield from self._substitute()
        elif name == "y":
            self.at += 1
            mark = self._peek()
            self._delimited(mark)
            self._replacement(mark)
        elif name == "e":
            self.at += 1
            command = self._take(_REST).strip()
            yield SedEffect("runs a command from inside sed", runs=command or None)
        elif name in "wW":
            self.at += 1
            yield from _written(self._take(_REST))
        elif name in "rR#v":
            self._take(_REST)
        elif name in "aic":
            self._take(_TEXT)
        elif not (self._take(_SINGLE) or self._take(_LABEL)):
            raise _Unreadable

    def _substitute(self) -> Iterator[SedEffect]:
        self.at += 1
        mark = self._peek()
        if mark in ("", "\n", "\\"):
            raise _Unreadable
        self._delimited(mark)
        self._replacement(mark)
        while self._peek() and self._peek() in "gpiIMmew0123456789":
            flag = self._peek()
            self.at += 1
            if flag == "e":
                yield SedEffect("runs what it has edited as a command")
            elif flag == "w":
                yield from _written(self._take(_REST))


def _written(name: str) -> Iterator[SedEffect]:
    target = name.strip()
    if target not in ("/dev/stdout", "/dev/stderr"):
        yield SedEffect("writes a file", writes=target)
