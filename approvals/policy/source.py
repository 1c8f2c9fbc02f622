"""Reading YAML or JSON into plain values, remembering where each one stands.

JSON is read as the YAML it is. The dialect is small on purpose: no anchors, no aliases, no tags,
no duplicate keys, and only true, false, null and numbers are anything but text, so `no`, `on`
and dates stay words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from omniweb.core.canonical import MAX_SAFE_INTEGER
from omniweb.core.errors import InvalidInput, Problem

MAX_BYTES = 1_000_000
MAX_DEPTH = 32

type Path = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+|(?:0|[1-9][0-9]*)(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"
)
_ESCAPE = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Source:
    """A document's plain value, and the (line, column) of each part, counted from 1."""

    value: Any
    positions: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def position(self, path: Path) -> tuple[int | None, int | None]:
        """Return where a path stands, or the nearest part around it that has a place."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return None, None


def read_source(text: str) -> Source:
    """Read one YAML or JSON document; raises InvalidInput with line and column."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            problems=[Problem(message="the document is not valid Unicode")]
        ) from error
    if size > MAX_BYTES:
        raise InvalidInput(
            problems=[
                Problem(
                    message=f"the document has {size} bytes; at most {MAX_BYTES} are read",
                    suggestion="split it into several policies",
                )
            ]
        )
    if text.lstrip().startswith(("{", "[")):
        # YAML dislikes tabs for indentation; raw tabs cannot occur inside a JSON string.
        text = _ESCAPE.sub(_whole_character, text.replace("\t", " "))
    try:
        return _Builder().build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _at(mark, error.problem or error.context or "it cannot be read") from error
    except yaml.YAMLError as error:
        raise InvalidInput(
            problems=[Problem(message=f"this is not YAML or JSON: {error}")]
        ) from error


def _whole_character(escape: re.Match[str]) -> str:
    """JSON writes characters beyond 16 bits as two escapes, which YAML does not know."""
    if escape["high"] is None:
        return escape[0]
    pair = bytes.fromhex(escape["high"] + escape["low"])
    return pair.decode("utf-16-be")


def _at(mark: Any, message: str, suggestion: str = "", path: str = "") -> InvalidInput:
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    problem = Problem(message=message, line=line, column=column, suggestion=suggestion, path=path)
    return InvalidInput(problems=[problem])


class _Builder:
    """Builds values from parser events, refusing on the way whatever the dialect leaves out."""

    def __init__(self) -> None:
        self.positions: dict[Path, tuple[int, int]] = {}

    def build(self, events: Iterator[Any]) -> Source:
        value, documents = None, 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _at(event.start_mark, "there is more than one document", "keep one")
                value = self._value(next(events), events, ())
        return Source(value, self.positions)

    def _value(self, event: Any, events: Iterator[Any], path: Path) -> Any:
        self._refuse(event, path)
        mark = event.start_mark
        self.positions.setdefault(path, (mark.line + 1, mark.column + 1))
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, path)
        return self._mapping(events, path)

    def _sequence(self, events: Iterator[Any], path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._value(event, events, (*path, len(items))))
        return items

    def _mapping(self, events: Iterator[Any], path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            self._refuse(event, path)
            mark = event.start_mark
            if not isinstance(event, yaml.ScalarEvent):
                raise _at(mark, "a key must be text", path=dotted(path))
            key = event.value
            if key == "<<" and event.implicit[0]:
                raise _at(mark, "merge keys are not read in policies", "write the values out")
            if key in values:
                raise _at(mark, f"the key '{key}' is given twice", "keep one", dotted(path))
            self.positions[(*path, key)] = (mark.line + 1, mark.column + 1)
            values[key] = self._value(next(events), events, (*path, key))
        return values

    def _refuse(self, event: Any, path: Path) -> None:
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _at(mark, "anchors and aliases are not read in policies", "write the value out")
        if event.tag is not None and event.tag != "!":
            raise _at(mark, f"the tag {event.tag} is not read in policies", "remove it")
        if len(path) > MAX_DEPTH:
            raise _at(mark, f"the document nests deeper than {MAX_DEPTH} levels")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    # A longer run of digits is a name, not a quantity; no number could hold it exactly.
    if _INTEGER.match(text) and len(text) < 20 and abs(int(text)) <= MAX_SAFE_INTEGER:
        return int(text)
    if NUMBER.match(text) and len(text) <= 30 and math.isfinite(float(text)):
        return float(text)
    return text


def dotted(path: Path) -> str:
    """Return a path as people write it: `rules.deny[0].target`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
