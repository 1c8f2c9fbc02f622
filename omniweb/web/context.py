"""What the frame around every page shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the actor and the number of open requests they can see."""
    actor = getattr(request, "actor", None)
    return {"actor": actor or None}
