"""Long polls: look, wait for a hint, look again; never a thread or a connection in between."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.http import HttpRequest

from omniweb.core.asynchronous import in_thread
from omniweb.core.database import AWAY, PAUSE_SECONDS
from omniweb.core.realtime import subscribe

MAX_WAIT_SECONDS = 60
# A lost hint costs at most this long.
LOOK_EVERY_SECONDS = 2.0


# Set once this process is about to stop: whoever waits is answered with what there is by then.
_stopping = threading.Event()


def waiting_end() -> None:
    """Let every long poll of this process end within LOOK_EVERY_SECONDS."""
    _stopping.set()


def is_ending() -> bool:
    """Say whether this process is about to stop, so that long work should."""
    return _stopping.is_set()


def preferred_wait(request: HttpRequest) -> float:
    """Return the seconds a client wants to wait at most: `Prefer: wait=N` (RFC 7240), else 0."""
    found = re.search(r"(?:^|[,;\s])wait=(\d{1,6})", request.headers.get("Prefer", ""))
    return min(float(found[1]), MAX_WAIT_SECONDS) if found else 0.0


async def wait_until[R](
    topic: tuple[str, UUID], look: Callable[[], R], done: Callable[[R], bool], seconds: float
) -> R:
    """Return what `look` sees once it is `done`, or as it is after so many seconds.

    `look` runs on a pooled thread and may use the database; while that is away, it is tried again.
    """
    deadline = time.monotonic() + seconds
    async with subscribe(*topic) as news:
        while True:
            left = deadline - time.monotonic()
            try:
                seen = await in_thread(look)
            except AWAY:
                if left <= 0 or _stopping.is_set():
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            left = deadline - time.monotonic()
            if done(seen) or left <= 0 or _stopping.is_set():
                return seen
            await news.wait(min(left, LOOK_EVERY_SECONDS))
