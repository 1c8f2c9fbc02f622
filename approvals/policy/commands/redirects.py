"""Redirects: where output goes, and what a command is given to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tree_sitter import Node

from approvals.policy.commands.line import Kind, Words
from approvals.policy.commands.words import CONTINUATION, UNREADABLE, read_word

if TYPE_CHECKING:
    from approvals.policy.commands.walk import Visit, Walker

# Writing to or reading from these changes and tells nothing.
DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"})

_DELIMITER = re.compile(r"""(?P<mark>['"]?)(?P<name>\w+)(?P=mark)|\\(?P<escaped>\w+)""")
REASON = "a redirect"


class Redirects(NamedTuple):
    """What a list of nodes comes to: `bodies` are the nodes that are no redirects."""

    bodies: tuple[Node, ...]
    writes: Words
    feed: str | None
    more: tuple[Node, ...]
    inside: tuple[Visit, ...]


class _Found:
    """Collects the pieces of `Redirects`."""

    def __init__(self) -> None:
        self.bodies: list[Node] = []
        self.writes: list[str | None] = []
        self.feed: str | None = None
        self.more: list[Node] = []
        self.inside: list[Visit] = []


def read_all(walker: Walker, visit: Visit, nodes: Sequence[Node]) -> Redirects:
    """Take the redirects out of the children of a statement."""
    found = _Found()
    for node in nodes:
        if node.type == "file_redirect":
            _file(walker, visit, node, found)
        elif node.type == "heredoc_redirect":
            _heredoc(walker, visit, node, found)
        elif node.type == "herestring_redirect":
            _herestring(walker, visit, node, found)
        elif node.is_named:
            found.bodies.append(node)
    return Redirects(
        tuple(found.bodies),
        tuple(found.writes),
        found.feed,
        tuple(found.more),
        tuple(found.inside),
    )


def _file(walker: Walker, visit: Visit, node: Node, found: _Found) -> None:
    operator = next((child.type for child in node.children if not child.is_named), "")
    targets = [child for child in node.children if child.is_named]
    targets = [child for child in targets if child.type != "file_descriptor"]
    if not targets:
        return
    # The grammar counts the words behind a target as targets; they belong to the command.
    target, *more = targets
    found.more += more
    found.inside.append(visit.inner(target))
    word = read_word(target, walker.source)
    if word.value in DEVICES or (operator in (">&", "<&") and target.type == "number"):
        return
    if operator in ("<", "<&"):
        network = word.value is None or word.value.startswith(("/dev/tcp/", "/dev/udp/"))
        walker.note(REASON, visit, Kind.VALUE if network else Kind.SHAPE, node)
        return
    found.writes.append(word.value)
    walker.note(REASON, visit, Kind.WRITE if word.value else Kind.VALUE, node)


def _herestring(walker: Walker, visit: Visit, node: Node, found: _Found) -> None:
    targets = [child for child in node.children if child.is_named]
    word = read_word(targets[-1], walker.source)
    found.feed = word.value
    walker.note(REASON, visit, Kind.SHAPE if word.value is not None else Kind.VALUE, node)
    found.inside += [visit.inner(child) for child in targets]


def _heredoc(walker: Walker, visit: Visit, node: Node, found: _Found) -> None:
    """Read a here-document, and what stands on its first line behind it."""
    for child in node.children:
        _beside(walker, visit, child, found)
    body = next((child for child in node.children if child.type == "heredoc_body"), None)
    quoted = _is_quoted(walker, node, body)
    if quoted is None:
        walker.note(UNREADABLE, visit, Kind.CODE, node)
        return
    text = "" if body is None else walker.source.text(body)
    if quoted or not re.search(r"[$`\\]", text):
        found.feed = text
    if not quoted:
        _expanded(walker, visit, node, body, text, found)


def _beside(walker: Walker, visit: Visit, child: Node, found: _Found) -> None:
    """Read what stands on the first line of a here-document."""
    if child.type == "file_redirect":
        _file(walker, visit, child, found)
    elif child.type in ("heredoc_redirect", "herestring_redirect"):
        walker.note(UNREADABLE, visit, Kind.CODE, child)
    elif child.type.endswith(("command", "statement")) or child.type in _NESTED:
        found.inside.append(visit.plain(child))
    elif child.is_named and child.type not in _OWN:
        found.more.append(child)
    elif child.type in ("&", "|&"):
        walker.note(f"`{child.type}`", visit, Kind.SHAPE, child)


_OWN = frozenset({"heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"})
_NESTED = frozenset({"pipeline", "list", "subshell"})


def _expanded(
    walker: Walker, visit: Visit, node: Node, body: Node | None, text: str, found: _Found
) -> None:
    """Read the body of a here-document whose delimiter is not quoted."""
    # An escaped newline in such a body vanishes before anything in it is read, quotes or not.
    cut = "\\\n" in text
    walker.note(CONTINUATION if cut else REASON, visit, Kind.CODE if cut else Kind.SHAPE, node)
    if body is not None:
        found.inside.append(visit.inner(body))
    if "`" in text:
        walker.note("a command substitution", visit, Kind.CODE, node)
        for piece in re.findall(r"`((?:[^`\\]|\\.)*)`", text, re.S):
            walker.backquoted(piece, visit._replace(node=node))
    if re.search(r"\$[(\[{]", re.sub(r"\\.", "", text, flags=re.S)) and not (
        body is not None and body.child_count
    ):
        walker.note(UNREADABLE, visit, Kind.CODE, node)


def _is_quoted(walker: Walker, node: Node, body: Node | None) -> bool | None:
    """Tell whether the delimiter is quoted; None where a shell may see the end elsewhere."""
    by_type = {child.type: walker.source.text(child) for child in node.children}
    start = _DELIMITER.fullmatch(by_type.get("heredoc_start", ""))
    if start is None or "heredoc_end" not in by_type:
        return None
    name = start["name"] or start["escaped"]
    tabs = "\t" if "<<-" in by_type else ""
    lines = by_type.get("heredoc_body", "").split("\n")
    after = walker.source.data[node.end_byte : node.end_byte + 1]
    early = any(line.lstrip(tabs) == name for line in lines)
    if early or by_type["heredoc_end"].strip("\t") != name or after not in (b"", b"\n", b")"):
        return None
    return bool(start["mark"] or start["escaped"])
