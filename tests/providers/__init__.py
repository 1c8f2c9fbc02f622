"""Providers, against what they really are: containers, processes, handlers."""

from __future__ import annotations

import uuid


def unique(prefix: str) -> str:
    """Return a name that no other test, worker or run of the suite uses."""
    return f"{prefix}_{uuid.uuid4().hex}"
