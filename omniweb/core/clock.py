"""The only place that asks what time it is."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, in UTC and with its offset."""
    return datetime.now(UTC)
