"""A database that is away for a moment: what has happened in the world must still be recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

# It restarts, cannot be reached, is locked for too long, or its disk is full.
AWAY = (OperationalError, InterfaceError)
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5


def insist[R](record: Callable[[], R]) -> R:
    """Return what `record` does, which is tried again for a while when the database is away.

    `record` is one transaction and can be repeated whole. Within another one it is tried once.
    Raises the database's last error.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return record()
        except AWAY as error:
            if connection.in_atomic_block or time.monotonic() > deadline:
                raise
            logger.warning("the database is away, trying again: %s", error)
            connection.close()
            time.sleep(PAUSE_SECONDS)
