"""What the frame around every page shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from approvals.selectors import inbox_count


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the actor and the number of open requests they can see."""
    actor = getattr(request, "actor", None)
    if not actor:
        return {"actor": None}
    # Counted only by templates that have the frame.
    return {"actor": actor, "inbox_count": SimpleLazyObject(lambda: inbox_count(actor))}
