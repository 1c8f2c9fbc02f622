"""What an awk program runs and writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class AwkEffect(NamedTuple):
    """A piece of the program that starts a command or writes; `text` where it is literal."""

    does: str
    runs: str | None = None
    writes: str | None = None


_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<slash>/)
    |(?P<op>\|\||\|&|>>|>=|[\s\S])""",
    re.X,
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]\n]*\])*/")
_ENDS_STATEMENT = frozenset({";", "\n", "{", "}"})
_RUNS = "starts a program from inside awk"
_UNREAD = "an awk program that could not be read"


def awk_effects(program: str) -> Iterator[AwkEffect]:
    """Yield what a program does besides reading and printing; never raises."""
    tokens = _tokens(program)
    if tokens is None:
        yield AwkEffect(_UNREAD)
        return
    printing, depth = False, 0
    for at, piece in enumerate(tokens):
        if piece in ("print", "printf"):
            printing, depth = True, 0
        elif piece in _ENDS_STATEMENT:
            printing = False
        elif piece in ("(", ")"):
            depth += 1 if piece == "(" else -1
        elif piece in ("|", "|&"):
            yield AwkEffect(_RUNS, runs=_piped(tokens, at))
        elif piece == "system":
            inside = tokens[at + 2 : at + 4]
            yield AwkEffect(_RUNS, runs=_literal(inside[0]) if inside[1:] == [")"] else None)
        elif piece == "@":
            yield AwkEffect("loads code, or calls a function by a name in a variable")
        elif piece in (">", ">>") and printing and depth <= 0:
            yield from _written(tokens, at)


def _tokens(program: str) -> list[str] | None:
    """Return the tokens without blanks; a slash begins an expression where a value may stand."""
    tokens: list[str] = []
    at = 0
    while at < len(program):
        found = _TOKEN.match(program, at)
        if found is None or found[0] == '"':
            return None
        if found["slash"] and not (tokens and re.fullmatch(r'[\w.]+|[)\]$]|".*"', tokens[-1])):
            found = _REGEX.match(program, at)
            if found is None:
                return None
            tokens.append("/ /")
        elif not found["space"]:
            tokens.append(found[0])
        at = found.end()
    return tokens


def _literal(piece: str) -> str | None:
    if len(piece) < 2 or piece[0] != '"':
        return None
    return piece[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def _piped(tokens: list[str], at: int) -> str | None:
    """Return the command of a pipe: before `getline`, otherwise behind the bar."""
    if tokens[at + 1 : at + 2] == ["getline"]:
        alone = at < 2 or tokens[at - 2] in {*_ENDS_STATEMENT, "(", "while", "&&"}
        return _literal(tokens[at - 1]) if at and alone else None
    alone = tokens[at + 2 : at + 3] == [] or tokens[at + 2] in _ENDS_STATEMENT
    return _literal(tokens[at + 1]) if alone and at + 1 < len(tokens) else None


def _written(tokens: list[str], at: int) -> Iterator[AwkEffect]:
    alone = tokens[at + 2 : at + 3] == [] or tokens[at + 2] in _ENDS_STATEMENT
    target = _literal(tokens[at + 1]) if alone and at + 1 < len(tokens) else None
    if target not in ("/dev/stdout", "/dev/stderr"):
        yield AwkEffect("writes a file", writes=target)
