"""Collecting what a line runs: its commands, what those run in turn, and what is beyond words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from approvals.policy.commands.builtins import TEXT_RUNNERS, text_runner_kind
from approvals.policy.commands.line import (
    CommandLine,
    Kind,
    OpaquePart,
    Risk,
    SimpleCommand,
    Words,
)
from approvals.policy.commands.plain import plain_chain
from approvals.policy.commands.programs import effects
from approvals.policy.commands.shells import has_command_option, reads_its_input, shell_script
from approvals.policy.commands.source import Place, Source
from approvals.policy.commands.walk import Visit, Walker
from approvals.policy.commands.words import CONTINUATION
from approvals.policy.commands.wrapper import Inner
from approvals.policy.commands.wrappers import SHELLS

MAX_SCRIPT_LENGTH = 10_000
MAX_NESTING = 8
MAX_COMMANDS = 1_000
# The grammar takes quadratic time over a long pipeline.
MAX_PIPES = 500

# Where one command of a line that cannot be parsed may end and the next begin.
_SEAMS = re.compile(r"[;&|\n(){}`<>]|\$\(|\b(?:then|do|else|if|while|until)\b")
GUESSED = "text that could not be read"
_NAMELESS = "a program without a name"


class Reader:
    """Collects the commands and opaque parts of one line."""

    def __init__(self) -> None:
        self._commands: list[SimpleCommand] = []
        self._opaque: dict[tuple[int, int, str], OpaquePart] = {}
        self._writes: list[str | None] = []
        self._env: list[str] = []
        self._inside: set[tuple[str | None, Words, int, int, Words, Words]] = set()

    def line(self, text: str) -> CommandLine:
        """Return what was read of a line."""
        commands = self._commands
        if self._writes or self._env:
            # What is set or opened on its own holds for whatever else the line runs.
            commands = [
                item._replace(writes=(*item.writes, *self._writes), env=(*item.env, *self._env))
                for item in commands
            ]
        return CommandLine(text, tuple(commands), tuple(self._opaque.values()))

    def everywhere(self, writes: Words, env: Iterable[str]) -> None:
        """Record redirects and assignments that stand on their own."""
        self._writes += writes
        self._env += env

    def add_opaque(self, reason: str, place: Place, kind: Kind = Kind.CODE) -> None:
        """Record a part that is more than literal words, once."""
        key = (place.start, place.end, reason)
        known = self._opaque.get(key)
        if known is None or (known.kind is not Kind.CODE and kind is Kind.CODE):
            self._opaque[key] = OpaquePart(reason, place.text, place.start, place.end, kind)

    def read(self, script: str, whole: Place, *, shifted: bool) -> None:
        """Read one script; `shifted` gives every part the place of the text it came from."""
        reason = _refusal(script)
        if reason:
            self.add_opaque(reason, whole)
            self._guess(script[:MAX_SCRIPT_LENGTH], whole)
            return
        chain = plain_chain(script)
        if chain is not None:
            for words, text, start, end in chain:
                at = (whole.start, whole.end) if shifted else (start, end)
                self.add_command(words, Place(text, *at, whole.reached))
            return
        self.read_grammar(script, whole, shifted=shifted)

    def read_grammar(self, script: str, whole: Place, *, shifted: bool) -> None:
        """Read any script the way bash would take it apart."""
        if len(whole.reached) > MAX_NESTING:
            self.add_opaque("commands nested too deeply", whole)
            return
        source = Source(script, whole if shifted else None)
        reason = source.unread()
        if reason:
            self.add_opaque(reason, whole)
        elif source.continues():
            self.add_opaque(CONTINUATION, whole, Kind.SHAPE)
        before = len(self._commands) + len(self._opaque)
        Walker(self, source).walk(Visit(source.root, whole.reached, covered=bool(reason)))
        if reason:
            self._guess(script, whole)
        elif len(self._commands) + len(self._opaque) == before:
            self.add_opaque("no command", whole)

    def _guess(self, script: str, whole: Place) -> None:
        """Cut a script nobody could parse where commands may begin, for rules that refuse."""
        for piece in _SEAMS.split(script)[:MAX_COMMANDS]:
            words = tuple(re.sub(r"[\"'\\]", "", word) for word in piece.split())
            words = words[next((at for at, word in enumerate(words) if "=" not in word), 0) :]
            if words and words[0]:
                self.add_command(words[:50], whole.inside(GUESSED))

    def add_command(
        self,
        words: Words,
        place: Place,
        *,
        writes: Words = (),
        env: tuple[str, ...] = (),
        feed: str | None = None,
    ) -> None:
        """Record a command and, as far as they can be read, the commands it runs."""
        if len(self._commands) >= MAX_COMMANDS:
            self.add_opaque("more commands than are read", place)
            return
        command = SimpleCommand(
            words, place.text, place.start, place.end, place.reached, writes, env
        )
        program = command.program
        if not program:
            why = "a program not known before it runs" if program is None else _NAMELESS
            self.add_opaque(why, place)
            self._commands.append(command)
            return
        found = effects(program, words)
        risks = tuple(item for item in found if isinstance(item, Risk))
        self._commands.append(command._replace(risks=risks) if risks else command)
        if program in SHELLS or program in TEXT_RUNNERS:
            self._text_runner(program, words, place, feed)
        for item in found:
            if isinstance(item, Risk):
                if item.opaque:
                    self.add_opaque(item.does, place)
            else:
                self._add_inner(item, place.inside(item.through), writes, env)

    def _text_runner(self, program: str, words: Words, place: Place, feed: str | None) -> None:
        """Note a program that runs text, and read its input where the line gives it."""
        if program in TEXT_RUNNERS:
            kind = text_runner_kind(program, words)
            self.add_opaque(f"`{program}` runs text as a command", place, kind)
        elif has_command_option(words):
            kind = Kind.CODE if shell_script(words) is None else Kind.SHAPE
            self.add_opaque(f"`{program} -c` runs text as a command", place, kind)
        elif reads_its_input(words):
            kind = Kind.CODE if feed is None else Kind.SHAPE
            self.add_opaque(f"`{program}` reads commands from its input", place, kind)
            if feed is not None:
                self.read(feed, place.inside(f"{program} input"), shifted=True)

    def _add_inner(self, inner: Inner, place: Place, writes: Words, env: tuple[str, ...]) -> None:
        if len(place.reached) > MAX_NESTING:
            self.add_opaque("commands nested too deeply", place)
            return
        env = (*env, *inner.env)
        # A command that can be read in two ways often holds the same one in both.
        key = (inner.script, inner.words, place.start, place.end, writes, env)
        if key in self._inside:
            return
        self._inside.add(key)
        if inner.script is not None:
            self.read(inner.script, place, shifted=True)
        else:
            self.add_command(inner.words, place, writes=writes, env=env)


def _refusal(script: str) -> str | None:
    """Return why a script is not even given to the grammar."""
    if len(script) > MAX_SCRIPT_LENGTH:
        return f"longer than {MAX_SCRIPT_LENGTH} characters"
    if "\0" in script:
        return "a NUL character"
    if script.count("|") > MAX_PIPES:
        return f"more than {MAX_PIPES} pipes"
    try:
        script.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode"
    return None
