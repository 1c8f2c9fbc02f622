"""What a policy document may say, as data: its keys, what each is for, and the values it takes.

Read off the schema, so that editors and clients complete what will be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from approvals.policy.capabilities import CAPABILITIES, RISK_LEVELS, SURFACES
from approvals.policy.document import PolicyDocument
from approvals.policy.shape import models_in

_ROLES = ("admin", "approver", "auditor", "operator", "viewer")
# Values the schema itself leaves open, by key.
_VALUES: dict[str, tuple[str, ...]] = {
    "capability": tuple(CAPABILITIES),
    "exclude_capability": tuple(CAPABILITIES),
    "risk_level": RISK_LEVELS,
    "execution_surface": SURFACES,
    "exclude_execution_surface": SURFACES,
    "data_classes": ("credential", "system_prompt", "pii"),
    "roles": _ROLES,
    "method": ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
}
_ABOUT = {
    "allow": "rules that let it happen",
    "approvals": "who must agree, and how many",
    "ask": "rules that leave it to a person",
    "at_expiry": "what follows when nobody decides in time",
    "audit_required": "only where it is recorded",
    "budgets": "spending limits",
    "capability": "what is asked for, or a glob over it",
    "command": "the first words of a command",
    "conditions": "what else must hold of the request",
    "constraints": "what the rule puts on a yes",
    "count": "how many people must agree",
    "data_classes": "kinds of data that are involved",
    "deny": "rules that forbid it",
    "env": "globs of variables that may be set for the command",
    "escalate_after_seconds": "when others are told, too",
    "examples": "commands the rule must and must not match",
    "exclude_capability": "capabilities the rule leaves out",
    "exclude_execution_surface": "surfaces the rule leaves out",
    "exclude_owner": "the agent's owner does not decide",
    "exclude_requester": "whoever started the run does not decide",
    "execution_surface": "where it happens",
    "expect": "the effect it must have",
    "extends": "a policy whose rules come first",
    "host": "glob over the host",
    "match": "commands it must match",
    "mcp_server": "the MCP server",
    "metadata": "notes of your own",
    "method": "the HTTP method",
    "mode": "what happens where no rule speaks",
    "name": "what it is called",
    "not_match": "commands it must not match",
    "path": "glob over the path",
    "prefix": "literal words, or lists of alternatives",
    "program": "one program, or a list of them",
    "provider": "the sandbox provider",
    "reason": "one sentence for whoever is refused or decides",
    "request": "the question, as the API asks it",
    "resource": "glob over the resource, such as an image",
    "risk_level": "how risky the request is",
    "roles": "who may decide; anybody who may vote by default",
    "rule_id": "its name, unique in the document",
    "rules": "deny, ask and allow",
    "sandbox_required": "only in a sandbox",
    "scopes": "how far a yes may reach",
    "target": "what is touched",
    "tests": "cases the policy must decide in a certain way",
    "tool_name": "glob over the tool",
    "approval_expires_seconds": "how long it waits for people",
    "writes": "globs of files the command's output may go to",
}  # fmt: skip


@cache
def vocabulary() -> Mapping[str, Any]:
    """Return the keys of a document: `{key: {about, values, keys}}`, `keys` being those within."""
    return _keys(PolicyDocument)


def _keys(schema: type[BaseModel]) -> dict[str, Any]:
    return {name: _entry(name, field.annotation) for name, field in schema.model_fields.items()}


def _entry(name: str, annotation: Any) -> dict[str, Any]:
    inner = next(models_in(annotation), None)
    entry: dict[str, Any] = {"about": _ABOUT.get(name, "")}
    if inner is not None:
        entry["keys"] = _keys(inner)
    elif values := _VALUES.get(name) or tuple(_literals(annotation)):
        entry["values"] = list(values)
    return entry


def _literals(annotation: Any) -> list[str]:
    """Return the words a type allows, `true` and `false` for a boolean."""
    annotation = getattr(annotation, "__value__", annotation)
    if annotation is bool:
        return ["true", "false"]
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [word for inner in get_args(annotation) for word in _literals(inner)]
