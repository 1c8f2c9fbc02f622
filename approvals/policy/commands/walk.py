"""Walking the grammar's tree of one script: which commands it holds, and how each is reached.

What goes beyond a chain of literal words is noted with its reason; the commands around and inside
it are read all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tree_sitter import Node

from approvals.policy.commands import redirects
from approvals.policy.commands.line import Kind, Words
from approvals.policy.commands.shells import KEYWORDS
from approvals.policy.commands.variables import changes_what_runs
from approvals.policy.commands.words import (
    UNREADABLE,
    Word,
    arithmetic_kind,
    read_word,
)

if TYPE_CHECKING:
    from approvals.policy.commands.reader import Reader
    from approvals.policy.commands.source import Source

# Nodes that only hold others together, and the tokens that may stand between those.
_CHAIN_TOKENS = frozenset({"&&", "||", ";", "|", "\n"})
_BACKGROUND = frozenset({"&", "|&"})

_SHAPES = {
    "subshell": "a subshell",
    "compound_statement": "a { ... } group or (( ... ))",
    "for_statement": "a loop",
    "while_statement": "a loop",
    "c_style_for_statement": "a loop",
    "if_statement": "an if",
    "case_statement": "a case",
    "function_definition": "a function",
    "negated_command": "a negated command",
}

# Pieces of words and of constructs: nothing in themselves, commands may stand inside.
_PIECES = frozenset({
    "word", "raw_string", "string", "string_content", "concatenation", "number", "variable_name",
    "special_variable_name", "simple_expansion", "array", "subscript", "regex", "extglob_pattern",
    "test_operator", "comment", "do_group", "elif_clause", "else_clause", "case_item", "command_name",
    "unary_expression", "binary_expression", "postfix_expression", "ternary_expression", "parenthesized_expression", "brace_expression", "ansi_c_string", "translated_string",
    "file_descriptor", "heredoc_body", "heredoc_content", "heredoc_start", "heredoc_end",
})  # fmt: skip

_SET_BEFORE = "a variable set before the command"
_TEST_EVALUATES = re.compile(r"(?:^|\s)-[vR]\s|\s-(?:eq|ne|lt|le|gt|ge)\s")
# Options of `declare` that change neither how a value is read nor what a name stands for.
_MILD_DECLARATION = re.compile(r"-[gprx]+")
_NUMBER = re.compile(r"-?\d+")


class Visit(NamedTuple):
    """A node still to read, and what stands around it.

    `writes` are the files all commands inside write to, `tail` those only the last one does;
    `more` are words of the last command that stand behind a redirect; `feed` is its whole input
    where the line gives it literally; `covered` when the reason is already noted.
    """

    node: Node
    reached: tuple[str, ...] = ()
    writes: Words = ()
    tail: Words = ()
    more: tuple[Node, ...] = ()
    feed: str | None = None
    covered: bool = False

    def inner(self, node: Node) -> Visit:
        """Return a visit of a word or construct inside, under the same redirects."""
        return Visit(node, self.reached, self.writes + self.tail, covered=self.covered)

    def plain(self, node: Node) -> Visit:
        """Return a visit of a child that has nothing to do with this one's redirects."""
        return Visit(node, self.reached, self.writes, covered=self.covered)


class Walker:
    """Reads the tree of one script into a reader."""

    def __init__(self, reader: Reader, source: Source) -> None:
        self.reader = reader
        self.source = source

    def walk(self, first: Visit) -> None:
        """Visit the tree in source order, without recursion: a line may nest thousands deep."""
        stack = [first]
        while stack:
            visit = stack.pop()
            handler = _HANDLERS.get(visit.node.type, Walker._piece)
            stack.extend(reversed(handler(self, visit)))

    def note(self, reason: str, visit: Visit, kind: Kind, node: Node | None = None) -> None:
        """Record a part beyond plain words, unless one around it already is."""
        if not visit.covered:
            self.reader.add_opaque(reason, self.source.place(node or visit.node), kind)

    def _chain(self, visit: Visit) -> list[Visit]:
        inside = []
        for child in visit.node.children:
            if child.is_named:
                if child.type != "comment":
                    inside.append(visit.plain(child))
            elif child.type in _BACKGROUND:
                self.note(f"`{child.type}`", visit, Kind.SHAPE, child)
            elif child.type not in _CHAIN_TOKENS:
                self.note(f"`{child.type}`", visit, Kind.CODE, child)
        if inside and (visit.tail or visit.more or visit.feed is not None):
            inside[-1] = inside[-1]._replace(tail=visit.tail, more=visit.more, feed=visit.feed)
        return inside

    def _redirected(self, visit: Visit) -> list[Visit]:
        read = redirects.read_all(self, visit, visit.node.children)
        if not read.bodies:
            self.reader.everywhere(read.writes, ())
            if read.more:
                self.note(UNREADABLE, visit, Kind.CODE)
        bodies = [
            Visit(
                node, visit.reached, visit.writes, visit.tail + read.writes,
                visit.more + read.more, read.feed, visit.covered,
            )
            for node in read.bodies
        ]  # fmt: skip
        return [*bodies, *read.inside]

    def _shape(self, visit: Visit) -> list[Visit]:
        """Read a construct: the commands inside are all it runs."""
        node = visit.node
        reason = _SHAPES[node.type]
        self.note(reason, visit, self._shape_kind(node))
        if visit.more:
            self.note(UNREADABLE, visit, Kind.CODE)
        reached = (*visit.reached, reason)
        return [
            visit.inner(child)._replace(reached=reached)
            for child in node.children
            if child.is_named
        ]

    def _shape_kind(self, node: Node) -> Kind:
        first = node.children[0]
        if node.type == "c_style_for_statement" or first.type == "((":
            return arithmetic_kind(self.source.text(node))
        names = (child for child in node.children if child.type == "variable_name")
        risky = any(changes_what_runs(self.source.text(name)) for name in names)
        return Kind.CODE if risky else Kind.SHAPE

    def _piece(self, visit: Visit) -> list[Visit]:
        node = visit.node
        if node.type not in _PIECES and node.type != "ERROR":
            self.note(node.type.replace("_", " "), visit, Kind.CODE)
        return [visit.inner(child) for child in node.children if child.is_named]

    def _expansion(self, visit: Visit) -> list[Visit]:
        word = read_word(visit.node, self.source)
        if word.kind is Kind.CODE:
            self.note(word.reason, visit, Kind.CODE)
        return [visit.inner(child) for child in visit.node.children if child.is_named]

    def _substitution(self, visit: Visit) -> list[Visit]:
        node = visit.node
        reason = node.type.replace("_", " ")
        reached = (*visit.reached, f"a {reason}")
        text = self.source.text(node)
        if text.startswith("`"):
            self.backquoted(text[1:-1], visit._replace(reached=reached))
            return []
        inside: list[Visit] = []
        for child in node.children:
            if child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                read = redirects.read_all(self, visit, [child])
                self.reader.everywhere(read.writes, ())
                inside += read.inside
            elif child.is_named:
                inside.append(Visit(child, reached, visit.writes, covered=visit.covered))
            elif child.type in _BACKGROUND:
                self.note(f"`{child.type}`", visit, Kind.SHAPE, child)
        return inside

    def backquoted(self, text: str, visit: Visit) -> None:
        """Read what stands between backquotes, where a backslash takes one meaning off."""
        if '\\"' in text:
            self.note(UNREADABLE, visit, Kind.CODE)
        place = self.source.place(visit.node, visit.reached)
        self.reader.read(re.sub(r"\\([$`\\])", r"\1", text), place, shifted=True)

    def _test(self, visit: Visit) -> list[Visit]:
        text = self.source.text(visit.node)
        # A subscript in an operand of these runs the substitutions in it; an unquoted variable
        # could hold such an operand.
        bare = any(
            child.type in ("simple_expansion", "expansion") for child in _operands(visit.node)
        )
        evaluates = _TEST_EVALUATES.search(text) or (bare and not text.startswith("[["))
        self.note("test command", visit, Kind.CODE if evaluates else Kind.SHAPE)
        return [visit.inner(child) for child in visit.node.children if child.is_named]

    def _declaration(self, visit: Visit) -> list[Visit]:
        inside: list[Visit] = []
        kind = Kind.SHAPE
        for child in visit.node.children[1:]:
            if child.type == "variable_assignment":
                inside += self.assignment(child, visit)
                continue
            if child.type != "variable_name" and not _MILD_DECLARATION.fullmatch(
                self.source.text(child)
            ):
                kind = Kind.CODE
            inside.append(visit.inner(child))
        self.note("declaration command", visit, kind)
        return inside

    def _unset(self, visit: Visit) -> list[Visit]:
        names = [self.source.text(child) for child in visit.node.children[1:]]
        mild = all(re.fullmatch(r"-[fv]|\w+", name) for name in names)
        risky = not mild or any(map(changes_what_runs, names))
        self.note("unset command", visit, Kind.CODE if risky else Kind.SHAPE)
        return [visit.inner(child) for child in visit.node.children[1:]]

    def _assigned(self, visit: Visit) -> list[Visit]:
        nodes = [visit.node] if visit.node.type == "variable_assignment" else visit.node.children
        return [inner for node in nodes for inner in self.assignment(node, visit)]

    def assignment(self, node: Node, visit: Visit, names: list[str] | None = None) -> list[Visit]:
        """Read NAME=value; without `names` to put the name in, it holds for the whole line."""
        target = node.children[0]
        name = self.source.text(target)
        kind = Kind.ENV
        if target.type == "subscript":
            name, _, index = name.partition("[")
            kind = Kind.ENV if _NUMBER.fullmatch(index.rstrip("]")) else Kind.CODE
        # Before a command, IFS only says how that one splits lines: `IFS= read`.
        if changes_what_runs(name) and (name != "IFS" or names is None):
            kind = Kind.CODE
        self.note(_SET_BEFORE, visit, kind, node)
        if names is None:
            self.reader.everywhere((), (name,))
        else:
            names.append(name)
        return [visit.inner(child) for child in node.children if child.is_named]

    def _simple(self, visit: Visit) -> list[Visit]:
        """Record one simple command; return the children that may hold further commands."""
        words: list[str | None] = []
        names: list[str] = []
        read = redirects.read_all(self, visit, visit.node.children)
        inside = [*read.inside]
        end = -1
        for child in [*read.bodies, *visit.more, *read.more]:
            if child.type == "variable_assignment":
                inside += self.assignment(child, visit, names)
                continue
            if child.type == "subshell":
                self.note(UNREADABLE, visit, Kind.CODE, child)
                inside.append(visit.inner(child))
                continue
            node = child.children[0] if child.type == "command_name" else child
            word = read_word(node, self.source)
            if child.start_byte == end:
                word = Word(None, UNREADABLE, Kind.CODE)
            end = child.end_byte
            words.append(self._value(node, word, first=not words))
            if word.kind is not None:
                self.note(word.reason, visit, word.kind, child)
                inside.append(visit.inner(node))
        self._add(visit, tuple(words), (read.writes, tuple(names), read.feed))
        return inside

    def _value(self, node: Node, word: Word, *, first: bool) -> str | None:
        if first and word.reason == "`~`":
            # Whose home it is does not matter for the name of the program in it.
            return self.source.text(node)
        return word.value

    def _add(
        self, visit: Visit, words: Words, found: tuple[Words, tuple[str, ...], str | None]
    ) -> None:
        writes, names, feed = found
        if not words:
            self.reader.everywhere(writes, names)
            return
        place = self.source.place(visit.node, visit.reached)
        if words[0] in KEYWORDS:
            kind = Kind.SHAPE if words[0] == "time" else Kind.CODE
            self.reader.add_opaque(f"the shell keyword `{words[0]}`", place, kind)
        self.reader.add_command(
            words,
            place,
            writes=visit.writes + visit.tail + writes,
            env=names,
            feed=visit.feed if feed is None else feed,
        )


_HANDLERS: dict[str, Callable[[Walker, Visit], list[Visit]]] = {
    **dict.fromkeys(_SHAPES, Walker._shape),
    "program": Walker._chain,
    "list": Walker._chain,
    "pipeline": Walker._chain,
    "redirected_statement": Walker._redirected,
    "command": Walker._simple,
    "test_command": Walker._test,
    "declaration_command": Walker._declaration,
    "unset_command": Walker._unset,
    "variable_assignment": Walker._assigned,
    "variable_assignments": Walker._assigned,
    "command_substitution": Walker._substitution,
    "process_substitution": Walker._substitution,
    "expansion": Walker._expansion,
    "arithmetic_expansion": Walker._expansion,
}


def _operands(node: Node) -> list[Node]:
    """Return the operands of a test that stand outside quotes."""
    found, stack = [], [node]
    while stack:
        item = stack.pop()
        if item.type.endswith("_expression") or item.type == "test_command":
            stack.extend(item.children)
        else:
            found.append(item)
    return found
