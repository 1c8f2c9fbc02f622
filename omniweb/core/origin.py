"""WebSockets are opened only by our own pages: browsers send cookies along for any page that asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


class SameOrigin:
    """Turns away a WebSocket whose Origin is not the address it was opened at.

    The port counts, too: cookies do not keep apart two servers of one host.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one connection."""
        admitted = self._application if is_own_page(scope["headers"]) else WebsocketDenier()
        await admitted(scope, receive, send)


def is_own_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the headers of a handshake say that a page of this installation has sent it."""
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(origins) != 1 or len(hosts) != 1:
        return False
    # A page of a name that merely leads here sends it as its origin and as the host alike.
    if not validate_host(split_domain_port(hosts[0])[0], settings.ALLOWED_HOSTS):
        return False
    scheme, host = urlsplit(origins[0])[:2]
    is_same = scheme == ("https" if settings.HTTPS else "http") and host == hosts[0].lower()
    return is_same or origins[0] in settings.CSRF_TRUSTED_ORIGINS
