"""Which installation this is, so that no two ever touch each other's sandboxes."""

from __future__ import annotations

import hashlib

from django.conf import settings


def installation_id() -> str:
    """Return a name all processes of an installation share: they share its secret key."""
    key = f"omniweb installation {settings.SECRET_KEY}"
    return hashlib.sha256(key.encode()).hexdigest()[:16]
