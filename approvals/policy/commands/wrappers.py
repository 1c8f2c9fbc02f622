"""Programs that run another program, and how to find what they run.

Reading through a wrapper only ever tightens a decision: a deny or ask rule sees the inner
command, an allow rule must cover the inner one as well as the wrapper.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from approvals.policy.commands.line import NOWHERE, Risk, Words
from approvals.policy.commands.variables import changes_what_runs
from approvals.policy.commands.wrapper import Inner, Wrapper, takes_next
from approvals.policy.commands.wrapper_table import SUBCOMMANDS, WRAPPERS

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "busybox"})

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
    for inside in WRAPPERS["xargs"].commands_of(words):
        own = words[1 : len(words) - len(inside)]
        mark = next((_replaced(own, at) for at in range(len(own)) if _replaced(own, at)), None)
        if mark is None:
            yield Inner("xargs", _and_more(inside))
        else:
            yield from _with_unknown("xargs", inside, mark)


def _and_more(inside: Words) -> Words:
    """Return a command with words nobody knows behind it; None stands for any number of them."""
    return inside if inside[-1] is None else (*inside, None)


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
    for inside in WRAPPERS["parallel"].commands_of(words) or [()]:
        yield from _paralleled(inside)


def _paralleled(inside: Words) -> Iterator[Risk | Inner]:
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
    for inside in WRAPPERS["flock"].commands_of(words):
        if inside[0] not in ("-c", "--command"):
            yield Inner("flock", inside)
        elif len(inside) > 1 and inside[1] is not None:
            yield Inner("flock -c", script=inside[1])
        else:
            yield Risk(NOWHERE, "`flock -c` runs text as a command", opaque=True)


def _watch(words: Words) -> Iterator[Inner]:
    """Yield what watch gives to a shell: its words as one text, or as they are where unknown."""
    for inside in WRAPPERS["watch"].commands_of(words):
        text = joined(inside)
        yield Inner("watch", script=text) if text else Inner("watch", inside)


def _command(words: Words) -> Iterator[Risk | Inner]:
    """Yield what `command` runs: nothing where -v or -V only has it look a program up."""
    for inside in WRAPPERS["command"].commands_of(words):
        own = words[1 : len(words) - len(inside)]
        yield from _unknown_operand("command", words, inside)
        if not any(word and {*word} & {"v", "V"} for word in own):
            yield Inner("command", inside)


def _entr(words: Words) -> Iterator[Risk | Inner]:
    """Yield what entr starts: words, or with -s the text of one."""
    for inside in WRAPPERS["entr"].commands_of(words):
        options = [word or "" for word in words[1 : len(words) - len(inside)]]
        is_text = any("s" in word for word in options) and inside[0] is not None
        yield Inner("entr -s", script=inside[0]) if is_text else Inner("entr", _and_more(inside))


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
        at += 1 + takes_next(word, "uCa", WRAPPERS["env"].valued_long)


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
    "entr": _entr,
    "command": _command,
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
    commands = wrapper.commands_of(own)
    if (
        not commands
        and program in ("sudo", "doas")
        and {"-s", "-i", "--shell", "--login"} & {*words}
    ):
        yield Risk(NOWHERE, f"`{program}` starts a shell", opaque=True)
    for inside in commands:
        yield from _unknown_operand(program, own, inside)
        yield from _set_for(wrapper, own, inside)
        yield Inner(program, inside, env=wrapper.names(own, inside))


def _set_for(wrapper: Wrapper, words: Words, inside: Words) -> Iterator[Risk]:
    for name in wrapper.names(words, inside):
        if changes_what_runs(name):
            at = next(at for at, word in enumerate(words) if (word or "").startswith(f"{name}="))
            yield Risk(at, f"{name} changes what programs run")


_READ_WHOLE = frozenset({"watch", "find", "xargs", "parallel", "flock", "entr", "command"})
