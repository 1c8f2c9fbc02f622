"""The embedded worker: Celery's own worker and beat, on threads of this process."""

from __future__ import annotations

import threading

from celery import beat
from celery.worker import WorkController, state

from omniweb.celery import app
from omniweb.core.broker import wake

STOP_SECONDS = 6


class EmbeddedWorker:
    """Runs every task of a single-process installation."""

    def __init__(self, threads: int) -> None:
        self._worker = WorkController(
            app=app,
            pool_cls="threads",
            concurrency=threads,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
        )
        self._thread = threading.Thread(target=self._worker.start, name="worker", daemon=True)
        # The plain scheduler keeps its times in memory: five jobs need no file.
        self._service = beat.Service(app, max_interval=1, scheduler_cls=beat.Scheduler)
        self._beat = threading.Thread(
            target=self._service.start, name="beat", daemon=True, kwargs={"embedded_process": False}
        )

    def start(self) -> None:
        """Start taking tasks."""
        state.should_stop = None
        self._thread.start()
        self._beat.start()

    def stop(self) -> None:
        """Take no new tasks, and let those that run come to an end within a few seconds."""
        self._service.stop()
        state.should_stop = 0  # type: ignore[assignment]  # the stub knows only its first value
        wake()
        self._thread.join(STOP_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether tasks are still being taken."""
        return self._thread.is_alive()
