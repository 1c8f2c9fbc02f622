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
from approvals.policy.commands.wrapper import Inner
from approvals.policy.commands.wrapper_table import STARTS_OTHERS, WRAPPERS
from approvals.policy.commands.wrappers import READERS, SHELLS, inner_commands

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
    """Read every script: the values of -e, or the first operand where neither -e nor -f is."""
    scripts: list[tuple[int, str | None]] = []
    operands: list[int] = []
    has_script, at = False, 1
    while at < len(words):
        word = words[at]
        if word == "--":
            operands += range(at + 1, len(words))
            break
        if word is None or word == "-" or not word.startswith("-"):
            operands.append(at)
        elif option := _SED_SCRIPT.fullmatch(word):
            has_script = True
            value, place = option["value"] or option["long_value"], at
            if value is None:
                at = place = at + 1
                value = words[at] if at < len(words) else None
            if option["letter"] == "e" or (option["long"] or "").startswith("--e"):
                scripts.append((place, value))
        elif _SED_LENGTH.fullmatch(word):
            at += 1
        at += 1
    if not has_script:
        scripts = [(place, words[place]) for place in operands[:1]]
    for place, script in scripts:
        yield from _sed_script(script, place)


# -e and -f, alone or last in a cluster, with the value in the same word or the next; and any
# beginning of their long names. -i takes the rest of its word.
_SED_SCRIPT = re.compile(
    r"-[nrEsuzb]*(?:l\d+)?(?P<letter>[ef])(?P<value>.+)?"
    r"|(?P<long>--(?:ex?p?r?e?s?s?i?o?n?|fi?l?e?))(?:=(?P<long_value>.*))?",
    re.DOTALL,
)
_SED_LENGTH = re.compile(r"-[nrEsuzb]*l|--l[a-z-]*")


def _sed_script(text: str | None, at: int) -> Iterator[Risk | Inner]:
    if text is None:
        yield Risk(at, INLINE)
        return
    for found in sed_effects(text):
        kind = Kind.WRITE if found.writes is not None else Kind.CODE
        yield Risk(at, found.does, kind, found.writes)
        if found.runs:
            yield Inner("sed e", script=found.runs)


def _tar(words: Words) -> Iterator[Risk | Inner]:
    """Read the old way of writing options, and actions at checkpoints."""
    if len(words) > 1 and words[1] and not words[1].startswith("-") and {*words[1]} & {*"IF"}:
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
    operands = [
        at
        for at, word in enumerate(words[1:], 1)
        if word is None or word == "-" or word[:1] not in "-+"
    ]
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
    for at, (word, follows) in enumerate(pairwise((*words[1:], None)), 1):
        named = _MODULE.fullmatch(word or "")
        if named and (named[1] or follows) in _RUNS_CODE:
            yield Risk(at, INLINE)


_MODULE = re.compile(r"-[a-zA-Z]*?m(.+)?")
_RUNS_CODE = frozenset(
    {
        "asyncio",
        "bdb",
        "cProfile",
        "code",
        "idlelib",
        "pdb",
        "profile",
        "sqlite3",
        "timeit",
        "trace",
    }
)


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
