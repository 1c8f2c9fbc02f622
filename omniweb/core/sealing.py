"""Encrypting what has to be stored and read again, with a key of the installation's secret."""

from __future__ import annotations

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from omniweb.core.errors import Conflict


def seal(data: bytes, *, purpose: str) -> bytes:
    """Return data encrypted; what is sealed for one purpose opens for no other."""
    return _cipher(purpose).encrypt(data)


def unseal(sealed: bytes | memoryview[int], *, purpose: str) -> bytes:
    """Return sealed data; raises Conflict where OMNIWEB_SECRET_KEY is another than it was."""
    try:
        return _cipher(purpose).decrypt(bytes(sealed))
    except InvalidToken:
        raise Conflict(
            "This was stored under another OMNIWEB_SECRET_KEY and cannot be read: "
            "restore that key, or store it again"
        ) from None


def _cipher(purpose: str) -> Fernet:
    key = hashlib.sha256(f"{purpose} {settings.SECRET_KEY}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
