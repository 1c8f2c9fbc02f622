"""Programs that run another program, and how to find what they run.

Reading through a wrapper only ever tightens a decision: a deny or ask rule sees the inner
command, an allow rule must cover the inner one as well as the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

type Words = tuple[str | None, ...]

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox"})

TEXT_RUNNERS = frozenset({
    "eval", "source", ".", "exec", "command", "builtin", "trap", "alias", "hash", "fc", "bind",
    "complete", "compgen", "mapfile", "readarray", "let", "read", "enable",
})  # fmt: skip

# Words with a meaning of their own to the shell; the grammar takes some of them for programs.
KEYWORDS = frozenset({
    "time", "coproc", "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while",
    "until", "do", "done", "in", "function", "{", "}", "!", "[[", "]]",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Inner:
    """Something a command runs: an argv, or shell text when `script` is set."""

    through: str
    words: Words = ()
    script: str | None = None


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
        return word in valued_long
    # In a cluster such as -Eu the first letter with a value takes the rest, or the next word.
    position = next((at for at, letter in enumerate(word[1:], 1) if letter in valued), None)
    return position == len(word) - 1


def _long(*names: str) -> frozenset[str]:
    return frozenset(f"--{name}" for name in names)


WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper("uCS", _long("unset", "chdir", "split-string"), assignments=True),
    "sudo": Wrapper(
        "aCcDghpRrTtUu",
        _long("user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from"),
        assignments=True,
    ),
    "doas": Wrapper("aCu"),
    "nice": Wrapper("n", _long("adjustment")),
    "ionice": Wrapper("cnpPu", _long("class", "classdata")),
    "chrt": Wrapper("TPDp", operands=1),
    "taskset": Wrapper(operands=1),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "timeout": Wrapper("ks", _long("kill-after", "signal"), operands=1),
    "stdbuf": Wrapper("ioe", _long("input", "output", "error")),
    "unbuffer": Wrapper(),
    "time": Wrapper("fo", _long("format", "output")),
    "xargs": Wrapper(
        "adEILnPs",
        _long(
            "arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars",
            "process-slot-var",
        ),
    ),
    "parallel": Wrapper("jaSn", _long("jobs", "arg-file", "sshlogin", "max-args")),
    "chroot": Wrapper("", _long("userspec", "groups"), operands=1),
    "unshare": Wrapper("RwSG", _long("root", "wd", "setuid", "setgid")),
    "nsenter": Wrapper("tSG", _long("target", "setuid", "setgid")),
    "setpriv": Wrapper("", _long("reuid", "regid", "groups", "inh-caps", "ambient-caps")),
    "setarch": Wrapper(operands=1),
    "flock": Wrapper("wE", _long("timeout", "conflict-exit-code"), operands=1),
    "strace": Wrapper("abeEIoOpPsSuUX"),
    "ltrace": Wrapper("aADeFlnopsuwx"),
    "watch": Wrapper("nq", _long("interval", "equexit")),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "coproc": Wrapper(),
    "fakeroot": Wrapper("lsbi"),
}  # fmt: skip

_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _find_commands(words: Words) -> Iterator[Inner]:
    """Yield each command of find's -exec family: the words up to `;` or `+`."""
    start: int | None = None
    for at, word in enumerate(words):
        if start is None and word in _FIND_RUNS:
            start = at + 1
        elif start is not None and word in (";", "+"):
            yield Inner(f"find {words[start - 1]}", words[start:at])
            start = None
    if start is not None:
        yield Inner(f"find {words[start - 1]}", words[start:])


def _option_script(name: str) -> Callable[[Words], Iterator[Inner]]:
    """Return a reader for programs whose `-c TEXT` is run by a shell."""

    def read(words: Words) -> Iterator[Inner]:
        for option, text in pairwise(words):
            if option in ("-c", "--command") and text is not None:
                yield Inner(f"{name} -c", script=text)

    return read


def _joined(words: Sequence[str | None]) -> str | None:
    return " ".join(word for word in words if word is not None) if None not in words else None


def _eval_script(words: Words) -> Iterator[Inner]:
    text = _joined(words[1:])
    if text:
        yield Inner("eval", script=text)


def _trap_script(words: Words) -> Iterator[Inner]:
    rest = words[2:] if words[1:2] == ("--",) else words[1:]
    if len(rest) > 1 and rest[0] is not None and not rest[0].startswith("-"):
        yield Inner("trap", script=rest[0])


def _watch_script(words: Words) -> Iterator[Inner]:
    text = _joined(WRAPPERS["watch"].command_of(words))
    if text:
        yield Inner("watch", script=text)


def _env_split(words: Words) -> Iterator[Inner]:
    """Yield the command given to env as one text with -S."""
    for option, text in pairwise(words):
        if option in ("-S", "--split-string") and text is not None:
            yield Inner("env -S", script=text)


READERS: dict[str, Callable[[Words], Iterator[Inner]]] = {
    "find": _find_commands,
    "su": _option_script("su"),
    "runuser": _option_script("runuser"),
    "script": _option_script("script"),
    "flock": _option_script("flock"),
    "eval": _eval_script,
    "trap": _trap_script,
    "watch": _watch_script,
    "env": _env_split,
}


def inner_commands(program: str, words: Words) -> Iterator[Inner]:
    """Yield what a command runs besides itself, by the tables above."""
    script = shell_script(words) if program in SHELLS else None
    if script is not None:
        yield Inner(f"{program} -c", script=script)
        return
    wrapper = WRAPPERS.get(program)
    if wrapper is not None:
        inside = wrapper.command_of(words)
        if inside:
            yield Inner(program, inside)
    reader = READERS.get(program)
    if reader is not None:
        yield from reader(words)


def shell_script(words: Words) -> str | None:
    """Return the text of `sh -c TEXT`, None when a shell is given no literal text that way."""
    if len(words) == 3 and words[1] == "-c":
        return words[2]
    operands = _shell_operands(words)
    return operands[0] if operands and has_command_option(words) else None


def has_command_option(words: Words) -> bool:
    """Tell whether a shell's options include -c, alone or in a cluster such as -lc."""
    return _has_shell_option(words, "c")


def reads_its_input(words: Words) -> bool:
    """Tell whether a shell started so takes its commands from standard input."""
    operands = _shell_operands(words)
    if not operands or _has_shell_option(words, "s"):
        return True
    return operands[0] in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def _shell_operands(words: Words) -> Words:
    # A shell also takes options with a plus sign; +o and +O have a value like -o and -O.
    return skip_options(words[1:], "oO", _long("rcfile", "init-file"), marks="-+")


def _has_shell_option(words: Words, letter: str) -> bool:
    options = words[1 : len(words) - len(_shell_operands(words))]
    return any(word and letter in word and not word.startswith("--") for word in options)
