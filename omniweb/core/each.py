"""One act for many rows, where one that fails leaves the others their turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import DatabaseError

from omniweb.core.models import Row

logger = logging.getLogger(__name__)


def for_each[R: Row](rows: Iterable[R], act: Callable[[R], object]) -> int:
    """Do `act` with each row, in a transaction of its own; return how many times it said yes.

    A row with which it cannot be done is logged, and tried again when this runs again. A
    database that does not answer is everybody's failure and raised.
    """
    done = 0
    for row in rows:
        try:
            done += bool(act(row))
        except DatabaseError:
            raise
        except Exception:
            logger.exception("%s cannot be put right", row.ref)
    return done
