"""How many requests a token may send: counted per minute, in the cache that all processes share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from ninja.throttling import BaseThrottle

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60


class PerMinute(BaseThrottle):
    """Allows `OMNIWEB_API_REQUESTS_PER_MINUTE` requests to whoever `key` tells apart."""

    def __init__(self, key: Callable[[HttpRequest], str]) -> None:
        self._key = key

    def allow_request(self, request: HttpRequest) -> bool:
        """Count a request; False when it is one too many."""
        window = int(time.time()) // WINDOW_SECONDS
        name = f"api:{window}:{self._key(request)}"
        try:
            cache.add(name, 0, timeout=2 * WINDOW_SECONDS)
            count: int = cache.incr(name)
        except ValueError:  # dropped by the cache between the two calls
            return True
        except Exception as error:  # noqa: BLE001 - each cache raises what its own client does
            # Agents go on without a limit rather than not at all.
            logger.warning("requests cannot be counted: %s", error)
            return True
        limit: int = settings.API_REQUESTS_PER_MINUTE
        return count <= limit

    def wait(self) -> float | None:
        """Return the seconds until the next window."""
        return WINDOW_SECONDS - time.time() % WINDOW_SECONDS
