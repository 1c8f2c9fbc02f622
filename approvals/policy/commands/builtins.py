"""Builtins of the shell that run or evaluate text given to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from approvals.policy.commands.line import NOWHERE, Kind, Risk, Words
from approvals.policy.commands.variables import changes_what_runs
from approvals.policy.commands.wrapper import Inner
from approvals.policy.commands.wrappers import joined

TEXT_RUNNERS = frozenset({
    "eval", "source", ".", "exec", "command", "builtin", "trap", "alias", "hash", "fc", "bind",
    "complete", "compgen", "mapfile", "readarray", "let", "read", "enable",
})  # fmt: skip

# Of these everything they run is in the tree as soon as their words are known.
_READABLE = frozenset({"eval", "exec", "command", "builtin", "trap", "alias"})

_NAME = re.compile(r"\w+")

SUBSCRIPT = "text in a subscript is run"


def text_runner_kind(program: str, words: Words) -> Kind:
    """Tell whether all that one of these runs is known from its words."""
    if None in words:
        return Kind.CODE
    literal = [word for word in words[1:] if word is not None]
    if program == "read":
        return Kind.SHAPE if _reads_into_names(literal) else Kind.CODE
    if program in ("mapfile", "readarray"):
        plain = all(re.fullmatch(r"-t|[a-z_]\w*", word) for word in literal)
        return Kind.SHAPE if plain else Kind.CODE
    if program == "hash":
        return Kind.SHAPE if literal in (["-r"], []) else Kind.CODE
    return Kind.SHAPE if program in _READABLE else Kind.CODE


def _reads_into_names(words: list[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        # -p prompt, -d delimiter, -t seconds, -n count: the next word is no name.
        at += 2 if words[at][-1] in "pdtnNu" else 1
    return all(_NAME.fullmatch(word) and not changes_what_runs(word) for word in words[at:])


def eval_script(words: Words) -> Iterator[Inner]:
    """Yield what `eval` runs: its words joined by blanks."""
    text = joined(words[2:] if words[1:2] == ("--",) else words[1:])
    if text:
        yield Inner("eval", script=text)


def trap_script(words: Words) -> Iterator[Inner]:
    """Yield the text a trap runs."""
    rest = words[2:] if words[1:2] == ("--",) else words[1:]
    if len(rest) > 1 and rest[0] is not None and not rest[0].startswith("-"):
        yield Inner("trap", script=rest[0])


def alias_scripts(words: Words) -> Iterator[Inner]:
    """Yield what each name will stand for."""
    for word in words[1:]:
        _, equals, text = (word or "").partition("=")
        if equals and text:
            yield Inner("alias", script=text)


def printf_risks(words: Words) -> Iterator[Risk]:
    """Yield the name printf -v writes to, if text in it is run."""
    if words[1:2] and (words[1] is None or words[1].startswith("-v")):
        name = (words[1] or "")[2:] or (words[2] if len(words) > 2 else None)
        if name is None or not _NAME.fullmatch(name) or changes_what_runs(name):
            yield Risk(NOWHERE, SUBSCRIPT, opaque=True)


def test_risks(words: Words) -> Iterator[Risk]:
    """Yield the operand of `test` that names a variable with a subscript."""
    for at, word in enumerate(words):
        name = words[at + 1] if at + 1 < len(words) else ""
        if word in ("-v", "-R") and (name is None or not re.fullmatch(r"\w*", name)):
            yield Risk(at, SUBSCRIPT, opaque=True)


def set_risks(words: Words) -> Iterator[Risk]:
    """Yield options of `set` and `shopt` that change how later lines are read."""
    for at, word in enumerate(words[1:], 1):
        if word is None or word not in _MILD_OPTIONS:
            yield Risk(at, "changes how the shell reads the rest", opaque=True)


_MILD_OPTIONS = frozenset({
    "-e", "-u", "-x", "-eu", "-ex", "-eux", "-euo", "-euxo", "-o", "pipefail", "errexit", "nounset",
    "xtrace", "+e", "+x", "+u", "-v",
})  # fmt: skip


def evaluated_names(words: Words) -> Iterator[Risk]:
    """Yield names given to a builtin that hold a subscript; text in it is run."""
    for at, word in enumerate(words[1:], 1):
        if word is None or "[" in word:
            yield Risk(at, SUBSCRIPT, opaque=True)
