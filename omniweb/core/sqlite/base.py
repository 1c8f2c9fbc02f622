"""Django's SQLite backend, with a line for those who want to write.

SQLite has one writer at a time and no line: who finds the lock taken sleeps, longer each time, and
tries again. Of some hundred threads a few then sleep past their time-out, and all of them while the
lock is free. Here the threads of one process stand in line before they ask SQLite, and the next
one goes on at once; other processes are still waited for as before.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Any

from django.db.backends.sqlite3 import base


class Line:
    """A lock that goes to whoever has waited longest; a plain one goes to whoever is running."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for at most so many seconds; tell whether it is this thread's turn."""
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout):
            return True
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
            # It was given in the moment this thread gave up.
            return True

    def release(self) -> None:
        """Let the next one go on."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


_LINES: defaultdict[str, Line] = defaultdict(Line)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that is first in its database's line from BEGIN to the end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_writer = False

    def _start_transaction_under_autocommit(self) -> None:
        # After the time-out SQLite is asked all the same, and says in its own words that it waited.
        self._is_writer = self._line().acquire(self.settings_dict["OPTIONS"]["timeout"])
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # missing in the stubs
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]  # missing in the stubs
        self._leave()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]  # missing in the stubs
        finally:
            self._leave()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]  # missing in the stubs
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._is_writer:
            self._is_writer = False
            self._line().release()

    def _line(self) -> Line:
        return _LINES[str(self.settings_dict["NAME"])]
