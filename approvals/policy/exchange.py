"""A policy as a file for elsewhere: YAML or JSON, and without what only this product reads."""

from __future__ import annotations

import json
from typing import Any, Literal

from approvals.policy.document import PolicyDocument, document_source

type Format = Literal["yaml", "json"]

FORMATS: tuple[Format, ...] = ("yaml", "json")
# What OmniCoreAgent refuses to read, by the part of a rule it stands in.
_OURS = {"constraints": ("approvals", "scopes"), "command": ("writes", "env")}


def exported(document: PolicyDocument, form: Format, *, for_peer: bool = False) -> str:
    """Return a document as text in one of the formats.

    For the peer, OmniCoreAgent, without our extensions; YAML then says on top what was left out.
    None of them makes an effect looser: a peer without them asks where we would allow.
    """
    value, left_out = (document.to_dict(), []) if not for_peer else _without_ours(document)
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    text = document_source(PolicyDocument.model_validate(value))
    head = "".join(f"# Left out, only OmniWeb reads it: {name}\n" for name in left_out)
    return head + text


def _without_ours(document: PolicyDocument) -> tuple[dict[str, Any], list[str]]:
    value = document.to_dict()
    left_out = [f"{len(document.tests)} kept tests"] if value.pop("tests", None) else []
    for rules in value.get("rules", {}).values():
        for rule in rules:
            left_out += [f"{name} of {rule['rule_id']}" for name in _leave_out(rule)]
    return value, left_out


def _leave_out(rule: dict[str, Any]) -> list[str]:
    """Take our extensions out of a rule; return what they were."""
    gone = [
        f"{part}.{name}"
        for part, names in _OURS.items()
        for name in names
        if rule.get(part, {}).pop(name, None) is not None
    ]
    if rule.get("constraints") == {}:
        del rule["constraints"]
    # Its examples may hold only by what was taken out, and the peer refuses one that does not.
    if any(name.startswith("command.") for name in gone) and rule.pop("examples", None):
        gone.append("examples")
    return gone
