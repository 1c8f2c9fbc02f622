"""Programs that run another program, and how to find what they run.

Reading through a wrapper only ever tightens a decision: a deny or ask rule sees the inner
command, an allow rule must cover the inner one as well as the wrapper.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from approvals.policy.commands.line import NOWHERE, Risk, Words
from approvals.policy.commands.variables import changes_what_runs

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox"})


@dataclass(frozen=True, slots=True)
class Inner:
    """Something a command runs: an argv, or shell text when `script` is set.

    `env` are the names of the variables set for it on the way.
    """

    through: str
    words: Words = ()
    script: str | None = None
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program's own words end and the command it runs begins.

    `valued` are the one-letter options followed by a value, `valued_long` the long ones;
    `operands` counts words of its own before the command; `assignments` allows NAME=value there.
    """

    valued: str = ""
    valued_long: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False

    def command_of(self, words: Words) -> Words:
        """Return the command inside, empty when there is none."""
        rest = skip_options(words[1:], self.valued, self.valued_long)
        rest = rest[self.operands :]
        while self.assignments and rest and rest[0] is not None and "=" in rest[0]:
            rest = rest[1:]
        return rest

    def names(self, words: Words, inside: Words) -> tuple[str, ...]:
        """Return the variables set on the way to the command."""
        if not self.assignments:
            return ()
        own = words[1 : len(words) - len(inside)]
        names = (word.partition("=")[0] for word in own if word and "=" in word)
        return tuple(name for name in names if not name.startswith("-"))


def skip_options(
    words: Words, valued: str, valued_long: frozenset[str] = frozenset(), marks: str = "-"
) -> Words:
    """Return the words after the options, as getopt would see them."""
    at = 0
    while at < len(words):
        word = words[at]
        if not word or word[0] not in marks:
            break
        at += 1
        if word == "--":
            break
        at += _takes_next(word, valued, valued_long)
    return words[at:]


def _takes_next(word: str, valued: str, valued_long: frozenset[str]) -> bool:
    if word.startswith("--"):
        # GNU programs take any beginning of a long name.
        return any(known.startswith(word) for known in valued_long)
    # In a cluster such as -Eu the first letter with a value takes the rest, or the next word.
    position = next((at for at, letter in enumerate(word[1:], 1) if letter in valued), None)
    return position == len(word) - 1


def long_options(*names: str) -> frozenset[str]:
    """Return the names as they are written."""
    return frozenset(f"--{name}" for name in names)


WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper("uCSa", long_options("unset", "chdir", "split-string", "argv0"), assignments=True),
    "sudo": Wrapper(
        "aCcDghpRrTtUu",
        long_options("user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from"),
        assignments=True,
    ),
    "doas": Wrapper("aCu"),
    "nice": Wrapper("n", long_options("adjustment")),
    "ionice": Wrapper("cnpPu", long_options("class", "classdata")),
    "chrt": Wrapper("TPDp", operands=1),
    "taskset": Wrapper(operands=1),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "timeout": Wrapper("ks", long_options("kill-after", "signal"), operands=1),
    "stdbuf": Wrapper("ioe", long_options("input", "output", "error")),
    "unbuffer": Wrapper(),
    "time": Wrapper("fo", long_options("format", "output")),
    "xargs": Wrapper(
        "adEILnPs",
        long_options(
            "arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars",
            "process-slot-var",
        ),
    ),
    "parallel": Wrapper("jaSn", long_options("jobs", "arg-file", "sshlogin", "max-args")),
    "chroot": Wrapper("", long_options("userspec", "groups"), operands=1),
    "unshare": Wrapper("RwSG", long_options("root", "wd", "setuid", "setgid")),
    "nsenter": Wrapper("tSG", long_options("target", "setuid", "setgid")),
    "setpriv": Wrapper("", long_options("reuid", "regid", "groups", "inh-caps", "ambient-caps")),
    "setarch": Wrapper(operands=1),
    "flock": Wrapper("wE", long_options("timeout", "conflict-exit-code"), operands=1),
    "strace": Wrapper("abeEIoOpPsSuUX"),
    "ltrace": Wrapper("aADeFlnopsuwx"),
    "watch": Wrapper("nq", long_options("interval", "equexit")),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "coproc": Wrapper(),
    "fakeroot": Wrapper("lsbi"),
    "systemd-run": Wrapper("pMuHEtS", long_options("unit", "property", "setenv", "uid", "gid", "slice", "host", "machine")),
    "numactl": Wrapper("NCmpil"),
    "cpulimit": Wrapper("lpe"),
    "firejail": Wrapper(),
    "xvfb-run": Wrapper("nsefp"),
    "rlwrap": Wrapper("abcCDefgHiIlmopPqrRsSStvwXzZ"),
    "torsocks": Wrapper("aPpu"),
    "proxychains": Wrapper("f"),
    "proxychains4": Wrapper("f"),
    "ssh-agent": Wrapper("aEtP"),
    "dbus-run-session": Wrapper(),
    "valgrind": Wrapper(),
    "gtime": Wrapper("fo", long_options("format", "output")),
    "caffeinate": Wrapper("tw"),
    "runcon": Wrapper("tulr"),
    "npx": Wrapper("pc", long_options("package", "call")),
    "bunx": Wrapper(),
    "uvx": Wrapper("p", long_options("from", "with", "python")),
    "pipx": Wrapper(operands=1),
    "catchsegv": Wrapper(),
    "entr": Wrapper(),
    "dotenv": Wrapper("f"),
}  # fmt: skip

# -c alone or last in a cluster, and the options of env that hold -S.
_TEXT_OPTION = re.compile(r"-[a-zA-Z]*c")
_SPLIT_OPTION = re.compile(r"-[i0v]*S|--s[a-z-]*(?:=|$)")

_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _find_commands(words: Words) -> Iterator[Risk | Inner]:
    """Yield each command of find's -exec family: the words up to `;` or `+`.

    What find found stands where `{}` is: a value nobody knows.
    """
    start: int | None = None
    for at, word in enumerate((*words, ";")):
        if start is None and word in _FIND_RUNS:
            start = at + 1
        elif start is not None and word in (";", "+"):
            inside = words[start:at]
            if inside:
                yield from _with_unknown(f"find {words[start - 1]}", inside, "{}")
            start = None


def _with_unknown(through: str, inside: Words, mark: str) -> Iterator[Risk | Inner]:
    """Yield a command in which something nobody knows will stand for `mark`."""
    program = (inside[0] or "").rpartition("/")[2]
    mixed = [word for word in inside if word and mark in word and word != mark]
    if program in SHELLS and mixed:
        # The shell reads what is put in, too; what stands around it is read here.
        yield Risk(NOWHERE, f"`{program}` runs text put together by `{through}`", opaque=True)
        inside = tuple(
            word.replace(mark, "$1") if word in mixed and word else word for word in inside
        )
    yield Inner(through, tuple(None if mark in (word or "") else word for word in inside))


def _xargs(words: Words) -> Iterator[Risk | Inner]:
    """Yield what xargs starts, with unknown words where its input goes."""
    inside = WRAPPERS["xargs"].command_of(words)
    if not inside:
        return
    own = words[1 : len(words) - len(inside)]
    mark = next((_replaced(own, at) for at in range(len(own)) if _replaced(own, at)), None)
    if mark is None:
        yield Inner("xargs", (*inside, None))
    else:
        yield from _with_unknown("xargs", inside, mark)


def _replaced(own: Words, at: int) -> str | None:
    """Return the text that -I or -i has replaced."""
    word = own[at] or ""
    if word in ("-I", "--replace") and word == "-I":
        return own[at + 1] if at + 1 < len(own) else None
    if word.startswith("-I"):
        return word[2:]
    if word.startswith("--replace"):
        return word.partition("=")[2] or "{}"
    return (word[2:] or "{}") if word.startswith("-i") else None


def _parallel(words: Words) -> Iterator[Risk | Inner]:
    """Yield the text parallel gives to a shell, or the arguments it runs as commands."""
    inside = WRAPPERS["parallel"].command_of(words)
    cut = next((at for at, word in enumerate(inside) if word in (":::", "::::", ":::+")), None)
    own = inside if cut is None else inside[:cut]
    if own:
        text = joined(own)
        if text is None:
            yield Risk(NOWHERE, "`parallel` runs text as a command", opaque=True)
        else:
            yield Inner("parallel", script=text)
            yield Inner("parallel", (*own, None))
    else:
        for word in inside[1:] if cut == 0 else ():
            yield Inner("parallel", script=word or "")
        yield Risk(NOWHERE, "`parallel` runs its input as commands", opaque=True)


def _option_script(name: str) -> Callable[[Words], Iterator[Risk | Inner]]:
    """Return a reader for programs whose `-c TEXT` is run by a shell."""

    def read(words: Words) -> Iterator[Risk | Inner]:
        text: str | None = None
        for option, value in pairwise((*words[1:], None)):
            if option is None:
                continue
            if option.startswith("--command="):
                text = option.removeprefix("--command=")
            elif option == "--command" or _TEXT_OPTION.fullmatch(option):
                text = value
            elif option.startswith("-c"):
                text = option[2:]
        if text is not None:
            yield Inner(f"{name} -c", script=text)
        else:
            yield Risk(NOWHERE, f"`{name}` starts a shell", opaque=True)

    return read


def joined(words: Sequence[str | None]) -> str | None:
    """Return words as one text, None when one of them is not known."""
    return " ".join(word for word in words if word is not None) if None not in words else None


def _flock(words: Words) -> Iterator[Risk | Inner]:
    """Yield the command behind the lock file, or the text of -c."""
    inside = WRAPPERS["flock"].command_of(words)
    if inside[:1] in (("-c",), ("--command",)):
        if len(inside) > 1 and inside[1] is not None:
            yield Inner("flock -c", script=inside[1])
        else:
            yield Risk(NOWHERE, "`flock -c` runs text as a command", opaque=True)
    elif inside:
        yield Inner("flock", inside)


def _watch(words: Words) -> Iterator[Inner]:
    """Yield what watch gives to a shell: its words as one text, or as they are where unknown."""
    inside = WRAPPERS["watch"].command_of(words)
    text = joined(inside)
    if text:
        yield Inner("watch", script=text)
    elif inside:
        yield Inner("watch", inside)


def _env_split(words: Words) -> Iterator[Risk | Inner]:
    """Yield the command given to env as one text with -S."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-"):
            return
        found = _SPLIT_OPTION.match(word)
        if found is not None:
            yield from _split_text(words, at, word[found.end() :])
            return
        at += 1 + _takes_next(word, "uCa", WRAPPERS["env"].valued_long)


def _split_text(words: Words, at: int, attached: str) -> Iterator[Risk | Inner]:
    text = attached or (words[at + 1] if at + 1 < len(words) else None)
    rest = words[at + (1 if attached else 2) :]
    if text is None or None in rest or "\\" in text:
        yield Risk(at, "`env -S` splits text that is not known", opaque=True)
    else:
        script = " ".join([text, *(shlex.quote(item) for item in rest if item is not None)])
        yield Inner("env -S", script=script)


def _unknown_operand(program: str, words: Words, inside: Words) -> Iterator[Risk]:
    """An unknown word among a wrapper's own can be more words than one, and begin a command."""
    if None in words[: len(words) - len(inside)]:
        why = f"words of `{program}` that are not known before it runs"
        yield Risk(NOWHERE, why, opaque=True)


READERS: dict[str, Callable[[Words], Iterator[Risk | Inner]]] = {
    "find": _find_commands,
    "xargs": _xargs,
    "parallel": _parallel,
    "su": _option_script("su"),
    "runuser": _option_script("runuser"),
    "script": _option_script("script"),
    "flock": _flock,
    "watch": _watch,
    "env": _env_split,
}

# Programs that start another one behind a subcommand of their own.
SUBCOMMANDS = {
    ("ip", "netns"): Wrapper(operands=2),
    ("uv", "run"): Wrapper(
        "pP", long_options("python", "with", "extra", "group", "project", "directory")
    ),
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("rye", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("conda", "run"): Wrapper("np"),
    ("bundle", "exec"): Wrapper(),
    ("npm", "exec"): Wrapper(),
    ("pnpm", "exec"): Wrapper(),
    ("yarn", "exec"): Wrapper(),
    ("direnv", "exec"): Wrapper(operands=1),
    ("perf", "stat"): Wrapper("eo"),
    ("perf", "record"): Wrapper("eo"),
    ("rustup", "run"): Wrapper(operands=1),
    ("cargo", "watch"): Wrapper(),
}


def inner_commands(program: str, words: Words) -> Iterator[Risk | Inner]:
    """Yield what a command runs besides itself, by the tables above."""
    reader = READERS.get(program)
    if reader is not None:
        found = list(reader(words))
        yield from found
        if program in _READ_WHOLE or (found and program == "env"):
            return
    wrapper, own = WRAPPERS.get(program), words
    if wrapper is None and len(words) > 1:
        wrapper, own = SUBCOMMANDS.get((program, words[1] or "")), words[1:]
    if wrapper is None:
        return
    inside = wrapper.command_of(own)
    if not inside and program in ("sudo", "doas") and {"-s", "-i", "--shell", "--login"} & {*words}:
        yield Risk(NOWHERE, f"`{program}` starts a shell", opaque=True)
    if inside:
        yield from _unknown_operand(program, own, inside)
        yield from _set_for(wrapper, own, inside)
        names = wrapper.names(own, inside)
        yield Inner(program, inside, env=names)


def _set_for(wrapper: Wrapper, words: Words, inside: Words) -> Iterator[Risk]:
    for name in wrapper.names(words, inside):
        if changes_what_runs(name):
            at = next(at for at, word in enumerate(words) if (word or "").startswith(f"{name}="))
            yield Risk(at, f"{name} changes what programs run")


_READ_WHOLE = frozenset({"watch", "find", "xargs", "parallel", "flock"})
# Programs whose command stands behind words of their own, by the name of those that have any.
STARTS_OTHERS = frozenset(program for program, _ in SUBCOMMANDS)
