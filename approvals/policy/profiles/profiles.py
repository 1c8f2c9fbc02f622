"""The built-in policies by name, read from the YAML files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from approvals.policy.document import PolicyDocument, parse_document
from approvals.policy.shape import nearest
from omniweb.core.errors import NotFound

PROFILES = ("permissive-dev", "interactive-dev", "strict-production")


def profile_source(name: str) -> str:
    """Return a profile's text as written; raises NotFound for a name that is none."""
    if name not in PROFILES:
        hint = nearest(name, PROFILES) or f"there are {', '.join(PROFILES)}"
        raise NotFound(f"there is no built-in policy '{name}'; {hint}")
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


@cache
def profile_document(name: str) -> PolicyDocument:
    """Return a built-in policy; raises NotFound for a name that is none."""
    return parse_document(profile_source(name))
