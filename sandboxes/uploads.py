"""Raw bodies, larger than forms and JSON may be."""

from __future__ import annotations

from django.http import HttpRequest

from omniweb.core.errors import TooLarge
from sandboxes.providers.limits import MAX_FILE_BYTES


def upload_read(request: HttpRequest) -> bytes:
    """Return a request's body; raises TooLarge above what a file may have."""
    data = request.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"A file may have at most {MAX_FILE_BYTES} bytes")
    return bytes(data)
