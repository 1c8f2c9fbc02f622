"""Adding to the text of a policy document without touching what people wrote in it.

A test or a rule is put in as new lines, so comments, order and spacing stay. Where a document is
written so that this cannot be done (JSON, or everything in braces), it is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from approvals.policy.source import read_source
from approvals.policy.writing import written

type Path = tuple[str, ...]


def with_test(text: str, *, name: str, request: Mapping[str, Any], expect: str) -> str:
    """Return the text of a document with a kept test added at the end of its tests.

    Raises InvalidInput for a text that is no document.
    """
    return with_item(text, ("tests",), {"name": name, "request": dict(request), "expect": expect})


def with_rule(text: str, *, effect: str, rule: Mapping[str, Any]) -> str:
    """Return the text of a document with a rule added at the end of those with its effect."""
    return with_item(text, ("rules", effect), dict(rule))


def with_item(text: str, path: Path, item: Mapping[str, Any]) -> str:
    """Return the text with an item added to the list at a path, which is made where it is missing."""
    wanted = _added(read_source(text).value, path, item)
    if not text.lstrip().startswith(("{", "[")):
        drafted = _inserted(text, path, item)
        if drafted is not None and read_source(drafted).value == wanted:
            return drafted
        return written(wanted)
    return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"


def _added(value: Any, path: Path, item: Any) -> Any:
    if not path:
        return [*(value or []), item]
    inside = dict(value or {})
    inside[path[0]] = _added(inside.get(path[0]), path[1:], item)
    return inside


def _inserted(text: str, path: Path, item: Mapping[str, Any]) -> str | None:
    """Return the text with new lines for an item, None where there is no place for them."""
    node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    column, lines = 0, text.splitlines()
    missing: Sequence[str] = path
    for depth, name in enumerate(path):
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            return None
        column = node.start_mark.column
        found = next((inner for key, inner in node.value if key.value == name), None)
        if found is None:
            missing = path[depth:]
            break
        if _is_empty(found):
            # `tests: []` and `tests:` alone have no line an item could follow.
            return None
        node, missing = found, ()
    if missing:
        return _after(lines, node, _nested(missing, item, column))
    if not isinstance(node, yaml.SequenceNode) or node.flow_style:
        return None
    return _after(lines, node, _indented([item], node.start_mark.column))


def _is_empty(node: Any) -> bool:
    return not node.value


def _nested(names: Sequence[str], item: Mapping[str, Any], column: int) -> list[str]:
    value: Any = [item]
    for name in reversed(names):
        value = {name: value}
    return _indented(value, column)


def _indented(value: Any, column: int) -> list[str]:
    return [" " * column + line for line in written(value).splitlines()]


def _after(lines: list[str], node: Any, added: list[str]) -> str:
    at = _last_line(node) + 1
    return "\n".join([*lines[:at], *added, *lines[at:]]) + "\n"


def _last_line(node: Any) -> int:
    """Return the last line that has something of a node; its own end may lie behind comments."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style:
        mark = node.end_mark
        return int(mark.line if mark.column else max(mark.line - 1, node.start_mark.line))
    inner = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
    return max(map(_last_line, inner), default=int(node.start_mark.line))
