"""Ringing the doorbell: tasks are enqueued by name, after the commit.

The row is the queue. A lost message costs time, not work: the reconciler rings
again.
"""

from __future__ import annotations

import logging
from functools import partial

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def enqueue(task: str, **arguments: str) -> None:
    """Enqueue a task once the current transaction has committed; arguments are ids, never data."""
    transaction.on_commit(partial(_send, task, arguments))


def _send(task: str, arguments: dict[str, str]) -> None:
    try:
        current_app.send_task(task, kwargs=arguments)
    except (OperationalError, ConnectionError, TimeoutError) as error:
        logger.warning("broker unreachable, %s waits for the reconciler: %s", task, error)
