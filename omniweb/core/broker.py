"""The broker of a single process: kombu's memory transport, which wakes its worker.

Left to itself that transport looks every so often whether something has come, which is too late
for whoever waits and too often for a machine that has nothing to do.
"""

from __future__ import annotations

import threading
from queue import Empty
from typing import Any

from kombu.transport import memory

# It is woken for all it waits for; this is for what nobody has thought of.
MAX_WAIT_SECONDS = 0.5

_news = threading.Event()


def wake() -> None:
    """Let the worker look what there is to do: a message has come, or it is to stop."""
    _news.set()


class Channel(memory.Channel):
    """Wakes the worker when a message comes."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        super()._put(queue, message, **kwargs)
        wake()


class Transport(memory.Transport):
    """Delivers messages between the threads of this process."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Deliver one message, or wait for one to come; TimeoutError sends the worker round again.

        `timeout` is in seconds.
        """
        _news.clear()
        try:
            self.cycle.get(self._deliver, timeout=timeout)  # type: ignore[union-attr]  # it has one
        except Empty:
            _news.wait(min(timeout or MAX_WAIT_SECONDS, MAX_WAIT_SECONDS))
            raise TimeoutError from None
