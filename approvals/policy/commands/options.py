"""Options that make a program run, load or write something, and how a command line holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from approvals.policy.commands.line import NOWHERE, Kind, Risk, Words
from approvals.policy.commands.wrapper import Inner

INLINE = "code in the line itself: not readable"
FROM_INPUT = "runs the code it reads from its input"
LOADS = "runs or obeys what stands in a file"
WRITES = "writes a file"
UNKNOWN_WORD = "a word that could be an option which runs or writes something"


class Effect(NamedTuple):
    """What one option does. `valued` when a word of its own may follow; `script` when that is run."""

    does: str
    kind: Kind = Kind.CODE
    valued: bool = True
    script: bool = False


_RUNS = Effect("starts the program named in this option", script=True)
_CODE = Effect(INLINE)
_LOADS = Effect(LOADS)
_WRITES = Effect(WRITES, Kind.WRITE)


@dataclass(frozen=True)
class Options:
    """The options of a program that count.

    `valued` are the other one-letter options with a value, so that it is not taken for options;
    `joined` those that have it in the same word or not at all;
    `words` when options are whole words behind one dash, as find has them; `first` when they stand
    before the first operand only; `whole` are long names that are no beginnings of others. `input` says what the
    program does with its input when no operand is given, `always` what it does in any case, ""
    when nothing to speak of; `named` are the options that name what it runs instead of an operand.
    """

    effects: Mapping[str, Effect]
    valued: str = ""
    words: bool = False
    input: str = ""
    always: str = ""
    named: str = ""
    first: bool = False
    whole: frozenset[str] = frozenset()
    joined: str = ""
    harmless: frozenset[str] = field(default=frozenset({"-V", "-v", "-h", "--version", "--help"}))

    def found(self, program: str, words: Words) -> Iterator[Risk | Inner]:
        """Yield what the options of a command do, and that it reads code from its input."""
        at, operands, is_fed = 1, 0, False
        ends = in_doubt = False
        while at < len(words) and not ends:
            word = words[at]
            step = 1
            if word is None:
                yield Risk(at, UNKNOWN_WORD)
                operands += 1
                ends = self.first
            elif word == "--" and not self.words:
                operands += len(words) - at - 1
                break
            elif word[:1] in ("-", "+") and len(word) > 1:
                step, name, attached = self._option(word)
                effect = self.effects.get(name)
                if effect is not None:
                    yield from _told(program, effect, name, at, words, attached)
                is_fed = is_fed or (effect is not None and effect.does is INLINE)
                operands += word in self.harmless or word[1] in self.named
                ends = self.first and operands > 0
                # A long option that is not in the table may take the next word.
                in_doubt = effect is None and word[:2] == "--" and "=" not in word
            else:
                operands += word != "-"
                ends = self.first and operands > 0 and not in_doubt
                in_doubt = False
            at += step
        if self.always or (self.input and not operands and not is_fed):
            yield Risk(NOWHERE, self.always or self.input)

    def _option(self, word: str) -> tuple[int, str, str | None]:
        """Return how many words an option takes, its name in the table, and its own value."""
        if self.words or word[0] == "+":
            name, equals, value = word.partition("=")
            return self._whole(name, value if equals else None)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            # GNU programs take any beginning of a long name.
            full = name if name in self.whole else self._full(name)
            return self._whole(full, value if equals else None)
        for at, letter in enumerate(word[1:], 1):
            rest = word[at + 1 :]
            effect = self.effects.get(f"-{letter}")
            if effect is not None:
                attached = rest if rest and effect.valued else None
                return 1 + (effect.valued and not rest), f"-{letter}", attached
            if letter in self.joined:
                break
            if letter in self.valued:
                return 1 + (not rest), "", None
        return 1, word, None

    def _full(self, name: str) -> str:
        if name in self.effects:
            return name
        return next((known for known in self.effects if known.startswith(name)), name)

    def _whole(self, name: str, value: str | None) -> tuple[int, str, str | None]:
        effect = self.effects.get(name)
        takes = effect is not None and effect.valued and value is None
        return 1 + takes, name, value


def _told(
    program: str, effect: Effect, name: str, at: int, words: Words, attached: str | None
) -> Iterator[Risk | Inner]:
    follows = effect.valued and attached is None
    place = at + 1 if follows and at + 1 < len(words) else at
    value = attached if attached is not None else words[place] if follows else None
    target = value if effect.kind is Kind.WRITE else None
    if target not in ("/dev/null", "/dev/stdout", "-") or effect.kind is not Kind.WRITE:
        yield Risk(place, effect.does, effect.kind, target)
    if effect.script and value:
        yield Inner(f"{program} {name}", script=value)


def runs(*names: str) -> dict[str, Effect]:
    """Options whose value is started as a program."""
    return dict.fromkeys(names, _RUNS)


def code(*names: str) -> dict[str, Effect]:
    """Options whose value is code in a language of the program's own."""
    return dict.fromkeys(names, _CODE)


def loads(*names: str) -> dict[str, Effect]:
    """Options that name a file with code or settings."""
    return dict.fromkeys(names, _LOADS)


def writes(*names: str) -> dict[str, Effect]:
    """Options that name a file to write."""
    return dict.fromkeys(names, _WRITES)


def flags(does: str, *names: str, kind: Kind = Kind.CODE) -> dict[str, Effect]:
    """Options without a value."""
    return dict.fromkeys(names, Effect(does, kind, valued=False))


def interpreter(effects: dict[str, Effect], valued: str = "", named: str = "") -> Options:
    """Return the options of a program that runs its input when given no file."""
    return Options(effects, valued, input=FROM_INPUT, named=named, first=True)


def as_words(options: Options) -> Options:
    """Return options written as whole words behind one dash."""
    return replace(options, words=True)
