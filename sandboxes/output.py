"""A command's output on its way: redacted, kept for the blob, and shown live in chunks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from omniweb.core.clock import now
from omniweb.core.database import AWAY
from omniweb.core.realtime import publish
from sandboxes.models import Execution, OutputChunk
from sandboxes.secrecy import redactor_for
from trajectories.blobs import blob_store
from trajectories.models import Blob

logger = logging.getLogger(__name__)

# Live output is written at most this often per execution (domain.md §5: 20 times a second).
FLUSH_SECONDS = 0.05
LOOK_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What became of a command's output."""

    stdout: Blob | None
    stderr: Blob | None
    stdout_size: int
    stderr_size: int


class Output:
    """Takes output from the provider's threads; `close` returns it as blobs."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        clean = redactor_for(execution.run, execution.env)
        self._streams = {name: clean.stream() for name in ("stdout", "stderr")}
        self._kept: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._pending: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._done = threading.Event()
        self._cancelled = threading.Event()
        self._whole: dict[str, bytes] | None = None

    def add(self, stream: str, data: bytes) -> None:
        """Take a piece of output; called from any thread."""
        with self._lock:
            self._take(stream, self._streams[stream].feed(data))

    def _take(self, stream: str, clean: bytes) -> None:
        if clean:
            self._kept[stream].append(clean)
            self._pending.append((stream, clean))
            self._news.set()

    @contextmanager
    def pulse(self) -> Iterator[Callable[[], bool]]:
        """Show output live, keep the lease and look for cancellation while a command runs.

        Yields the question whether to stop. The thread touches the database only
        for commands that outlast a moment.
        """
        thread = threading.Thread(target=self._beat, name=f"pulse {self._execution.ref}")
        thread.daemon = True
        thread.start()
        try:
            yield self._cancelled.is_set
        finally:
            self._done.set()
            self._news.set()
            thread.join()

    def _beat(self) -> None:
        try:
            # By a clock that nobody sets: the lease must not end with a command that runs.
            self._renew_at = time.monotonic() + settings.LEASE_SECONDS / 3
            while not self._done.wait(FLUSH_SECONDS):
                try:
                    self._tick()
                except (DatabaseError, InterfaceError) as error:
                    # The whole output is recorded at the end; what must go on is the lease.
                    logger.warning("%s runs on without a database: %s", self._execution.ref, error)
                    connection.close()
        finally:
            connection.close()

    def _tick(self) -> None:
        if self._news.wait(LOOK_SECONDS) and not self._done.is_set():
            self._flush()
        if time.monotonic() >= self._renew_at:
            self._renew()
            self._renew_at = time.monotonic() + settings.LEASE_SECONDS / 3
        if not self._done.is_set():
            self._look()

    def _flush(self) -> None:
        with self._lock:
            self._news.clear()
            pending, self._pending = self._pending, []
        try:
            OutputChunk.objects.bulk_create(
                OutputChunk(execution=self._execution, stream=stream, data=data)
                for stream, data in pending
            )
        except AWAY:
            with self._lock:
                self._pending = pending + self._pending
            self._news.set()
            raise
        publish("execution", self._execution.id)
        publish("run", self._execution.run_id)

    def _renew(self) -> None:
        lease = now() + timedelta(seconds=settings.LEASE_SECONDS)
        rows = Execution.objects.filter(pk=self._execution.pk, claim=self._execution.claim)
        rows.update(lease_until=lease)

    def _look(self) -> None:
        rows = Execution.objects.filter(pk=self._execution.pk)
        still_ours = rows.filter(
            claim=self._execution.claim, state="running", cancel_requested_at__isnull=True
        )
        if not still_ours.exists():
            self._cancelled.set()

    def close(self) -> Kept:
        """Return all output as blobs and drop the live chunks; call it in the ending transaction.

        It may be called again when that transaction failed.
        """
        with self._lock:
            if self._whole is None:
                for stream, cleaning in self._streams.items():
                    self._take(stream, cleaning.close())
                self._whole = {stream: b"".join(parts) for stream, parts in self._kept.items()}
        return _put_away(self._execution, self._whole)


def output_rescue(execution: Execution) -> Kept:
    """Return as blobs what was shown of a command whose worker is lost, likewise."""
    chunks = OutputChunk.objects.filter(execution=execution).order_by("id")
    whole = {
        stream: b"".join(bytes(chunk.data) for chunk in chunks.filter(stream=stream))
        for stream in ("stdout", "stderr")
    }
    return _put_away(execution, whole)


def _put_away(execution: Execution, whole: Mapping[str, bytes]) -> Kept:
    OutputChunk.objects.filter(execution=execution).delete()
    blobs = {
        stream: blob_store(team=execution.run.team, data=data) if data else None
        for stream, data in whole.items()
    }
    return Kept(
        stdout=blobs["stdout"],
        stderr=blobs["stderr"],
        stdout_size=len(whole["stdout"]),
        stderr_size=len(whole["stderr"]),
    )
