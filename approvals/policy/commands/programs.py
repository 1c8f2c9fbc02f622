"""What a command does besides what its name says: programs it starts, options that write or load."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from approvals.policy.commands import builtins, git, hosts
from approvals.policy.commands.awk import awk_effects
from approvals.policy.commands.line import NOWHERE, Kind, Risk, Words
from approvals.policy.commands.option_table import ALIASES, OPTIONS
from approvals.policy.commands.options import FROM_INPUT, INLINE, WRITES
from approvals.policy.commands.sed import sed_effects
from approvals.policy.commands.shells import shell_script
from approvals.policy.commands.variables import changes_what_runs
from approvals.policy.commands.wrappers import (
    READERS,
    SHELLS,
    STARTS_OTHERS,
    WRAPPERS,
    Inner,
    inner_commands,
)

type Effects = Iterable[Risk | Inner]


def _awk(words: Words) -> Iterator[Risk | Inner]:
    """Read the program; any word that looks like one is taken for one."""
    for at, program in enumerate(words[1:], 1):
        if program is None:
            yield Risk(at, INLINE)
        elif not program.startswith("-") and _LOOKS_LIKE_AWK.search(program):
            for found in awk_effects(program):
                kind = Kind.WRITE if found.writes is not None else Kind.CODE
                yield Risk(at, found.does, kind, found.writes)
                if found.runs:
                    yield Inner("awk", script=found.runs)


_LOOKS_LIKE_AWK = re.compile(r"[{(|>@\"]")


def _sed(words: Words) -> Iterator[Risk | Inner]:
    scripts: list[int] = []
    at, operands = 1, []
    while at < len(words):
        word = words[at]
        if word in ("-e", "--expression", "-f", "--file") or _ends_with_e(word):
            if word not in ("-f", "--file"):
                scripts.append(at + 1)
            at += 1
        elif word in ("-l", "--line-length"):
            at += 1
        elif word is None or not word.startswith("-") or word == "-":
            operands.append(at)
        elif word.startswith(("-e", "--expression=")):
            scripts.append(at)
        at += 1
    if not scripts and not any((word or "").startswith(("-f", "--file")) for word in words[1:]):
        scripts = operands[:1]
    for place in scripts:
        yield from _sed_script(words, place)


def _ends_with_e(word: str | None) -> bool:
    # A cluster such as -ne: the script is the next word.
    return bool(word) and word[0] == "-" and word[1:2] != "-" and word[1:].rstrip("nrEsuz") == "e"  # type: ignore[index] # not empty


def _sed_script(words: Words, at: int) -> Iterator[Risk | Inner]:
    text = words[at] if at < len(words) else None
    if text is None:
        yield Risk(at, INLINE)
        return
    if text.startswith(("-e", "--expression=")):
        text = text.removeprefix("-e").removeprefix("--expression=")
    for found in sed_effects(text):
        kind = Kind.WRITE if found.writes is not None else Kind.CODE
        yield Risk(at, found.does, kind, found.writes)
        if found.runs:
            yield Inner("sed e", script=found.runs)


def _tar(words: Words) -> Iterator[Risk | Inner]:
    """Read the old way of writing options, and actions at checkpoints."""
    if len(words) > 1 and words[1] and not words[1].startswith("-") and "I" in words[1]:
        yield Risk(1, "starts the program named in this option")
        yield from (Inner("tar I", script=word) for word in words[2:3] if word)
    for word in words[1:]:
        if word and word.startswith("--checkpoint-action") and "exec=" in word:
            yield Inner("tar --checkpoint-action", script=word.partition("exec=")[2])
    for at, word in enumerate(words[1:], 1):
        if word and _ON_ANOTHER_MACHINE.match(word) and "--force-local" not in words:
            yield Risk(at, "starts rsh to reach another machine")
    for left, right in pairwise(words):
        if left == "--checkpoint-action" and right and right.startswith("exec="):
            yield Inner("tar --checkpoint-action", script=right.removeprefix("exec="))


_ON_ANOTHER_MACHINE = re.compile(r"(?:-[a-zA-Z]*f|--file=)?[\w.@-]+:")


def _dd(words: Words) -> Iterator[Risk]:
    for at, word in enumerate(words[1:], 1):
        if word is None:
            yield Risk(at, WRITES, Kind.WRITE)
        elif word.startswith("of=") and word[3:] not in ("/dev/null", "/dev/stdout"):
            yield Risk(at, WRITES, Kind.WRITE, word[3:])


def _second_operand(words: Words) -> Iterator[Risk]:
    """A second file is the one written to."""
    operands = [at for at, word in enumerate(words[1:], 1) if word is None or word[:1] not in "-+"]
    if words[0] and words[0].endswith("uniq"):
        operands = [at for at in operands if words[at - 1] not in ("-f", "-s", "-w")]
    elif words[0] and words[0].endswith("xxd"):
        operands = [at for at in operands if words[at - 1] not in ("-c", "-g", "-l", "-o", "-s")]
    for at in operands[1:]:
        yield Risk(at, WRITES, Kind.WRITE, words[at])


_PROXIES = ("proxycommand", "localcommand", "knownhostscommand")


def _ssh(words: Words) -> Iterator[Inner]:
    for left, word in pairwise(words):
        text = word if left == "-o" else word[2:] if word and word.startswith("-o") else None
        name, _, value = (text or "").replace("=", " ", 1).partition(" ")
        if name.lower() in _PROXIES and value.strip():
            yield Inner(f"ssh -o {name}", script=value)


def _make(words: Words) -> Iterator[Risk]:
    for at, word in enumerate(words[1:], 1):
        name, equals, _ = (word or "").partition("=")
        if "$" in (word or "") or (equals and changes_what_runs(name.lstrip("."))):
            yield Risk(at, "changes what the makefile runs")


def _curl(words: Words) -> Iterator[Risk]:
    for at, word in enumerate(words[1:], 1):
        if word and "%output{" in word:
            yield Risk(at, WRITES, Kind.WRITE)


def _python(words: Words) -> Iterator[Risk]:
    """Modules that run code given to them as a word."""
    for left, (at, module) in zip(words, enumerate(words[1:], 1), strict=False):
        if left == "-m" and module in ("timeit", "pdb", "code", "cProfile", "trace"):
            yield Risk(at, INLINE)


def _sqlite(words: Words) -> Iterator[Risk]:
    for at, word in enumerate(words[2:], 2):
        if word is None or word.startswith(".") or "(" in word:
            yield Risk(at, INLINE)
    if len(words) < 3:
        yield Risk(NOWHERE, FROM_INPUT)


def _plus_commands(words: Words) -> Iterator[Risk]:
    """`vim +cmd`, `less +cmd`: a command of the program itself."""
    for at, word in enumerate(words[1:], 1):
        if word and word.startswith("+") and not word[1:].isdigit():
            yield Risk(at, INLINE)


def _set_variables(words: Words) -> Iterator[Risk]:
    yield from builtins.evaluated_names(words)


_SPECIAL: dict[str, Callable[[Words], Effects]] = {
    "awk": _awk, "curl": _curl, "python": _python, "sed": _sed, "tar": _tar, "git": git.git_effects, "dd": _dd, "uniq": _second_operand,
    "xxd": _second_operand, "ssh": _ssh, "scp": _ssh, "sftp": _ssh, "make": _make, "sqlite3": _sqlite,
    "vim": _plus_commands, "less": _plus_commands, "more": _plus_commands,
    "printf": builtins.printf_risks, "test": builtins.test_risks, "set": builtins.set_risks,
    "shopt": builtins.set_risks, "getopts": _set_variables, "wait": _set_variables,
    "eval": builtins.eval_script, "trap": builtins.trap_script, "alias": builtins.alias_scripts,
}  # fmt: skip

KNOWN_PROGRAMS = frozenset(
    {*OPTIONS, *ALIASES, *_SPECIAL, *WRAPPERS, *READERS, *SHELLS, *STARTS_OTHERS}
)


def effects(program: str, words: Words) -> list[Risk | Inner]:
    """Return what a command runs, loads or writes by its arguments; never raises."""
    found: list[Risk | Inner] = [*hosts.hidden_risks(words)]
    if program not in KNOWN_PROGRAMS:
        # python3.12 is python.
        program = program.rstrip("0123456789.-")
        if program not in KNOWN_PROGRAMS:
            return found
    name = ALIASES.get(program, program)
    options = OPTIONS.get(name)
    if options is not None:
        found += options.found(program, words)
    special = _SPECIAL.get(name)
    if special is not None:
        found += special(words)
    script = shell_script(words) if program in SHELLS else None
    if script is not None:
        return [*found, Inner(f"{program} -c", script=script)]
    found += inner_commands(name if name in ("find", "xargs") else program, words)
    return found
