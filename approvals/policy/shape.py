"""From the schema's complaints to problems a policy's author understands, with line and suggestion."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from approvals.policy.source import Path, Source, dotted
from omniweb.core.errors import Problem

MAX_PROBLEMS = 50

_REMOVED_COMMAND_KEYS = {
    "args_any": "list the words in prefix, as alternatives where they differ",
    "redirect": "a redirect makes a command opaque, which is asked about by itself",
    "env": "a variable before a command makes it opaque, which is asked about by itself",
}

_KINDS = {
    "bool_type": "a boolean",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a "did you mean" for a misspelt word, empty when nothing is near."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    close = close or [name for name in names if len(word) > 2 and name.startswith(word)]
    return f"did you mean '{close[0]}'?" if close else ""


def shape_problems(
    error: ValidationError, source: Source, schema: type[BaseModel]
) -> list[Problem]:
    """Return one problem per complaint; unknown keys of one object are told together."""
    unknown: dict[Path, list[str]] = {}
    problems = []
    for item in error.errors(include_url=False, include_context=True):
        path = _real_path(item["loc"], source.value)
        if item["type"] == "extra_forbidden":
            unknown.setdefault(path[:-1], []).append(str(path[-1]))
        else:
            problems.append(_problem(source, path, _complaint(item, path), _hint(item)))
    for parent, keys in unknown.items():
        problems.append(_unknown_keys(source, schema, parent, keys))
    unique = {(item.line, item.column, item.message): item for item in problems}
    return sorted(unique.values(), key=lambda item: item.line or 0)[:MAX_PROBLEMS]


def _real_path(loc: tuple[int | str, ...], value: Any) -> Path:
    """Drop the schema's own steps (union branches) from a location, keep those of the document."""
    path: list[int | str] = []
    for part in loc:
        is_key = isinstance(value, Mapping) and part in value
        is_index = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
        if is_key or is_index:
            value = value[part]
            path.append(part)
        elif isinstance(value, Mapping) and isinstance(part, str):
            path.append(part)
            break
    return tuple(path)


def rule_id_at(source: Source, path: Path) -> str | None:
    """Return the id of the rule a path lies in, or its place where it has none."""
    if len(path) < 3 or path[0] != "rules" or not isinstance(path[2], int):
        return None
    try:
        rule_id = source.value["rules"][path[1]][path[2]]["rule_id"]
    except (KeyError, IndexError, TypeError):
        return dotted(path[:3])
    return str(rule_id)


def subject(source: Source, path: Path) -> str:
    """Return how problems below a path begin: `rule {id}: ` inside a rule."""
    rule_id = rule_id_at(source, path)
    return f"rule {rule_id}: " if rule_id else ""


def _unknown_keys(
    source: Source, schema: type[BaseModel], parent: Path, keys: list[str]
) -> Problem:
    listed = ", ".join(sorted(keys))
    start = subject(source, parent)
    known = _known_keys(schema, parent)
    suggestion = next(filter(None, (nearest(key, known) for key in keys)), "")
    removed = next((key for key in keys if key in _REMOVED_COMMAND_KEYS), None)
    if parent and parent[-1] == "command" and removed:
        message = f"{start}command.{removed} was removed: {_REMOVED_COMMAND_KEYS[removed]}"
    elif parent == ("rules",):
        message = f"rules has unknown key(s) {listed}; the buckets are deny, ask and allow"
    elif start and len(parent) == 3:
        message = f"{start}unknown key(s) {listed}"
    else:
        inside = parent[3:] if start else parent
        message = f"{start}{dotted(inside) or 'policy'} has unknown key(s) {listed}"
    return _problem(source, (*parent, keys[0]), message, suggestion)


def _known_keys(schema: type[BaseModel], path: Path) -> list[str]:
    for part in path:
        if isinstance(part, str):
            field = schema.model_fields.get(part)
            inner = next(models_in(field.annotation), None) if field else None
            if inner is None:
                return []
            schema = inner
    return list(schema.model_fields)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models an annotation mentions, looking through unions, lists and aliases."""
    annotation = getattr(annotation, "__value__", annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def _complaint(item: Mapping[str, Any], path: Path) -> str:
    name = dotted(path[3:] if path[:1] == ("rules",) and len(path) > 3 else path)
    kind = item["type"]
    if kind == "missing":
        return f"{name} is missing"
    if kind in _KINDS:
        return f"{name} must be {_KINDS[kind]}"
    if kind == "literal_error":
        choices = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return f"{name} must be one of: {choices}"
    if kind == "string_too_short":
        return f"{name} must not be empty"
    return f"{name}: {item['msg'].lower()}"


def _hint(item: Mapping[str, Any]) -> str:
    if item["type"] == "bool_type":
        return "write true or false, without quotes"
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        expected = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        return nearest(item["input"], expected.split(", "))
    return ""


def _problem(source: Source, path: Path, complaint: str, suggestion: str) -> Problem:
    start = subject(source, path)
    message = complaint if complaint.startswith(start) else start + complaint
    line, column = source.position(path)
    return Problem(
        message=message, path=dotted(path), line=line, column=column, suggestion=suggestion
    )
