"""One log format, for people and for machines: logfmt on stderr."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import structlog

_masks: list[Callable[[str], str]] = []


def lines_mask(mask: Callable[[str], str]) -> None:
    """Have every line go through a function that knows what must not be in it."""
    _masks[:] = [mask]


def _masked(logger: Any, method: str, line: Any) -> Any:
    for mask in _masks:
        line = mask(line)
    return line


def line_formatter() -> logging.Formatter:
    """Return the formatter; every value is quoted, so that no text can forge a second line."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.contextvars.merge_contextvars,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.KeyValueRenderer(
                key_order=["timestamp", "level", "logger", "event"], drop_missing=True
            ),
            _masked,
        ],
    )
