"""From an argv to the simple commands it runs, read with the bash grammar of tree-sitter.

A line is plain when it is a chain of simple commands of literal words. Whatever else is met
is recorded as an opaque part with its reason, and the commands around and inside it are still
read: they let deny and ask rules see more, and never prove an allow. Reading starts no process,
opens no file and never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tree_sitter
import tree_sitter_bash
from tree_sitter import Node

from approvals.policy.commands.line import CommandLine, OpaquePart, SimpleCommand
from approvals.policy.commands.plain import plain_chain
from approvals.policy.commands.words import UNREADABLE, read_word
from approvals.policy.commands.wrappers import (
    KEYWORDS,
    SHELLS,
    TEXT_RUNNERS,
    Inner,
    Words,
    has_command_option,
    inner_commands,
    reads_its_input,
    shell_script,
)

MAX_SCRIPT_LENGTH = 10_000
MAX_NESTING = 8

_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())

# Nodes that only hold others together, and the tokens that may stand between those.
_CHAINS = frozenset({"program", "list", "pipeline", "redirected_statement"})
_CHAIN_TOKENS = frozenset({"&&", "||", ";", "|", "\n"})

_REASONS = {
    "file_redirect": "a redirect",
    "heredoc_redirect": "a redirect",
    "herestring_redirect": "a redirect",
    "subshell": "a subshell",
    "compound_statement": "a { ... } group or (( ... ))",
    "for_statement": "a loop",
    "c_style_for_statement": "a loop",
    "while_statement": "a loop",
    "if_statement": "an if",
    "case_statement": "a case",
    "function_definition": "a function",
    "negated_command": "a negated command",
    "test_command": "test command",
    "declaration_command": "declaration command",
    "variable_assignment": "a variable set before the command",
    "variable_assignments": "a variable set before the command",
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
}

# What may stand in a command without being one of its words.
_NOT_WORDS = frozenset({
    "variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect", "subshell",
})  # fmt: skip

# Tokens whose inside is text, blanks included.
_WHOLE = frozenset({"string", "raw_string", "heredoc_body"})

_ODD_GAPS = {b"\\": "a line continuation"} | dict.fromkeys(
    (b"\r", b"\v", b"\f", b"\xc2", b"\xe1", b"\xe2", b"\xe3"), "an unusual blank"
)


def read_command(argv: Sequence[str]) -> CommandLine:
    """Return what an argv runs: the script of `sh -c`, otherwise the argv itself."""
    words = tuple(argv)
    program = words[0].rpartition("/")[2] if words else ""
    script = shell_script(words) if program in SHELLS else None
    if script is not None:
        return read_script(script)
    text = " ".join(words)
    reader = _Reader()
    if words:
        reader.add_command(words, _Place(text, 0, len(text)))
    else:
        reader.add_opaque("no command", _Place("", 0, 0))
    return reader.line(text)


def read_script(text: str) -> CommandLine:
    """Return what a shell script runs."""
    reader = _Reader()
    reader.read(text, _Place(text, 0, len(text)), shifted=False)
    return reader.line(text)


def read_with_grammar(text: str) -> CommandLine:
    """Return what a script runs without taking the short way for plain chains."""
    reader = _Reader()
    reader.read_grammar(text, _Place(text, 0, len(text)), shifted=False)
    return reader.line(text)


class _Place(NamedTuple):
    """Where something stands in the whole line, and through what it is reached."""

    text: str
    start: int
    end: int
    reached: tuple[str, ...] = ()

    def inside(self, through: str) -> _Place:
        return _Place(self.text, self.start, self.end, (*self.reached, through))


class _Source:
    """One script given to the grammar, and where its parts stand in the whole line."""

    __slots__ = ("_ascii", "data", "script", "whole")

    def __init__(self, script: str, whole: _Place | None) -> None:
        self.script = script
        self.data = script.encode()
        self.whole = whole
        self._ascii = len(self.data) == len(script)

    def place(self, node: Node, reached: tuple[str, ...] = ()) -> _Place:
        """Return where a node stands; parts of a quoted script stand where its text does."""
        start, end = node.start_byte, node.end_byte
        if not self._ascii:
            start, end = len(self.data[:start].decode()), len(self.data[:end].decode())
        text = self.script[start:end]
        if self.whole is not None:
            return _Place(text, self.whole.start, self.whole.end, reached)
        return _Place(text, start, end, reached)

    def odd_gap(self, root: Node) -> str | None:
        """Return why the text between two tokens is not what separates words for a shell.

        The grammar skips more than a shell does: other white space, escaped blanks, and now and
        then a word it has no place for.
        """
        at = 0
        for start, end in [*_leaves(root), (len(self.data), len(self.data))]:
            gap = self.data[at:start].strip(b" \t\n")
            if gap:
                return _ODD_GAPS.get(gap[:1], UNREADABLE)
            at = max(at, end)
        return None


def _leaves(root: Node) -> Iterator[tuple[int, int]]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count and node.type not in _WHOLE:
            stack.extend(reversed(node.children))
        else:
            yield node.start_byte, node.end_byte


class _Visit(NamedTuple):
    """A node still to read; `covered` when an opaque part around it is already recorded."""

    node: Node
    reached: tuple[str, ...]
    covered: bool


class _Reader:
    """Collects the commands and opaque parts of one line."""

    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.opaque: list[OpaquePart] = []

    def line(self, text: str) -> CommandLine:
        return CommandLine(text, tuple(self.commands), tuple(self.opaque))

    def add_opaque(self, reason: str, place: _Place) -> None:
        self.opaque.append(OpaquePart(reason, place.text, place.start, place.end))

    def read(self, script: str, whole: _Place, *, shifted: bool) -> None:
        """Read one script; `shifted` gives every part the place of the text it came from."""
        reason = _refusal(script)
        if reason:
            self.add_opaque(reason, whole)
            return
        chain = plain_chain(script)
        if chain is not None:
            for words, text, start, end in chain:
                at = (whole.start, whole.end) if shifted else (start, end)
                self.add_command(words, _Place(text, *at, whole.reached))
            return
        self.read_grammar(script, whole, shifted=shifted)

    def read_grammar(self, script: str, whole: _Place, *, shifted: bool) -> None:
        """Read any script the way bash would take it apart."""
        source = _Source(script, whole if shifted else None)
        root = tree_sitter.Parser(_LANGUAGE).parse(source.data).root_node
        reason = UNREADABLE if root.has_error else source.odd_gap(root)
        if reason:
            self.add_opaque(reason, whole)
        before = len(self.commands) + len(self.opaque)
        self._walk(source, _Visit(root, whole.reached, bool(reason)))
        if not reason and len(self.commands) + len(self.opaque) == before:
            self.add_opaque("no command", whole)

    def _walk(self, source: _Source, first: _Visit) -> None:
        """Visit the tree in source order, without recursion: a line may nest thousands deep."""
        stack = [first]
        while stack:
            visit = stack.pop()
            kind = visit.node.type
            if kind == "command":
                inside = self._read_simple(source, visit)
            elif kind in _CHAINS:
                inside = self._read_chain(source, visit)
            else:
                inside = self._read_construct(source, visit)
            stack.extend(reversed(inside))

    def _read_chain(self, source: _Source, visit: _Visit) -> list[_Visit]:
        inside = []
        for child in visit.node.children:
            if child.is_named:
                if child.type != "comment":
                    inside.append(_Visit(child, visit.reached, visit.covered))
            elif child.type not in _CHAIN_TOKENS and not visit.covered:
                self.add_opaque(f"`{child.type}`", source.place(child))
        return inside

    def _read_construct(self, source: _Source, visit: _Visit) -> list[_Visit]:
        """Record what is not a plain chain; return what may hold commands inside it."""
        node, reached = visit.node, visit.reached
        if node.type == "ERROR":
            return []
        reason = _REASONS.get(node.type)
        if not visit.covered:
            reason = reason or node.type.replace("_", " ")
            self.add_opaque(reason, source.place(node))
        if reason:
            reached = (*reached, reason)
        return [_Visit(child, reached, covered=True) for child in node.children if child.is_named]

    def _read_simple(self, source: _Source, visit: _Visit) -> list[_Visit]:
        """Record one simple command; return the children that may hold further commands."""
        words: list[str | None] = []
        inside = []
        end = -1
        for child in visit.node.children:
            kind = child.type
            if kind in _NOT_WORDS:
                inside.append(_Visit(child, visit.reached, visit.covered))
                continue
            node = child.children[0] if kind == "command_name" else child
            value, reason = read_word(node)
            if child.start_byte == end:
                value, reason = None, UNREADABLE
            end = child.end_byte
            words.append(value)
            if value is None:
                if not visit.covered:
                    self.add_opaque(reason, source.place(child))
                inside.append(_Visit(node, visit.reached, covered=True))
        if words:
            place = source.place(visit.node, visit.reached)
            if words[0] in KEYWORDS:
                self.add_opaque(f"the shell keyword `{words[0]}`", place)
            self.add_command(tuple(words), place)
        return inside

    def add_command(self, words: Words, place: _Place) -> None:
        """Record a command and, as far as they can be read, the commands it runs."""
        command = SimpleCommand(words, place.text, place.start, place.end, place.reached)
        self.commands.append(command)
        program = command.program
        if not program:
            if program == "":
                self.add_opaque("a program without a name", place)
            return
        if program in TEXT_RUNNERS:
            self.add_opaque(f"`{program}` runs text as a command", place)
        elif program in SHELLS and has_command_option(words):
            self.add_opaque(f"`{program} -c` runs text as a command", place)
        elif program in SHELLS and reads_its_input(words):
            self.add_opaque(f"`{program}` reads commands from its input", place)
        for inner in inner_commands(program, words):
            self._add_inner(inner, place.inside(inner.through))

    def _add_inner(self, inner: Inner, place: _Place) -> None:
        if len(place.reached) > MAX_NESTING:
            self.add_opaque("commands nested too deeply", place)
        elif inner.script is not None:
            self.read(inner.script, place, shifted=True)
        else:
            self.add_command(inner.words, place)


def _refusal(script: str) -> str | None:
    """Return why a script is not even given to the grammar."""
    if len(script) > MAX_SCRIPT_LENGTH:
        return f"longer than {MAX_SCRIPT_LENGTH} characters"
    if "\0" in script:
        return "a NUL character"
    try:
        script.encode()
    except UnicodeEncodeError:
        return "text that is not Unicode"
    return None
