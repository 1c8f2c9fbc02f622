"""What runs another program: what is inside it, and where its own words end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from approvals.policy.commands.line import Words


@dataclass(frozen=True, slots=True)
class Inner:
    """Something a command runs: an argv, or shell text when `script` is set.

    `env` are the names of the variables set for it on the way.
    """

    through: str
    words: Words = ()
    script: str | None = None
    env: tuple[str, ...] = ()


# Ways to read one command that are followed.
MAX_READINGS = 4


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program's own words end and the command it runs begins.

    `valued` are the one-letter options followed by a value, `flags` those without, `valued_long` and
    `flags_long` the long ones; `joined` when no long one takes a word of its own. `operands` counts
    words before the command; `assignments` allows NAME=value there.
    """

    valued: str = ""
    valued_long: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    flags: str = ""
    flags_long: frozenset[str] = frozenset()
    joined: bool = False

    def commands_of(self, words: Words) -> list[Words]:
        """Return the command inside; more of them where an option unknown here may take a word.

        The last of too many is one that nobody knows.
        """
        found: list[Words] = []
        for end in self._ends(words[1:]):
            rest = words[1 + end + self.operands :]
            while self.assignments and rest and rest[0] is not None and "=" in rest[0]:
                rest = rest[1:]
            if len(found) == MAX_READINGS:
                return [*found, (None,)]
            if rest and rest not in found:
                found.append(rest)
        return found

    def _ends(self, words: Words) -> Iterator[int]:
        """Yield where the options can end, what is likeliest first."""
        places = [0]
        for at in places:
            word = words[at] if at < len(words) else None
            if not word or word[0] != "-":
                yield at
            elif word == "--":
                yield at + 1
            else:
                places += [to for to in self._after(at, word) if to not in places]

    def _after(self, at: int, word: str) -> tuple[int, ...]:
        if word in self.flags_long:
            return (at + 1,)
        if takes_next(word, self.valued, self.valued_long):
            return (at + 2,)
        if word.startswith("--"):
            known = self.joined or "=" in word or any(map(_begins(word), self.flags_long))
        else:
            own = word[1:].partition("=")[0]
            first = next((at for at, one in enumerate(own) if one in self.valued), len(own))
            known = set(own[:first]) <= {*self.flags}
        return (at + 1,) if known else (at + 1, at + 2)

    def names(self, words: Words, inside: Words) -> tuple[str, ...]:
        """Return the variables set on the way to the command."""
        if not self.assignments:
            return ()
        own = words[1 : len(words) - len(inside)]
        names = (word.partition("=")[0] for word in own if word and "=" in word)
        return tuple(name for name in names if not name.startswith("-"))


def _begins(word: str) -> Callable[[str], bool]:
    # GNU programs take any beginning of a long name.
    return lambda known: known.startswith(word)


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
        at += takes_next(word, valued, valued_long)
    return words[at:]


def takes_next(word: str, valued: str, valued_long: frozenset[str]) -> bool:
    """Tell whether an option is one with a value that is not in the same word."""
    if word.startswith("--"):
        return any(map(_begins(word), valued_long))
    # In a cluster such as -Eu the first letter with a value takes the rest, or the next word.
    position = next((at for at, letter in enumerate(word[1:], 1) if letter in valued), None)
    return position == len(word) - 1


def long_options(*names: str) -> frozenset[str]:
    """Return the names as they are written."""
    return frozenset(f"--{name}" for name in names)
