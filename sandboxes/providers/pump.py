"""Carrying a command's bytes: out as they come, capped; in as it takes them; until it must stop.

One loop, no threads, and no buffer larger than one read.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from sandboxes.providers.base import Cancelled, CommandResult, OnOutput, Stream
from sandboxes.providers.limits import (
    ASK_EVERY_SECONDS,
    DRAIN_SECONDS,
    KIB,
    LOOK_EVERY_SECONDS,
    QUIET_SECONDS,
)

CHUNK = 64 * KIB
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL


class Stop(Enum):
    """Why a command had to be stopped."""

    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"


class Watch:
    """Tells when a command must stop: its time is up, or its caller no longer wants it."""

    def __init__(self, time_limit_seconds: float | None, cancelled: Cancelled) -> None:
        now = time.monotonic()
        self._deadline = None if time_limit_seconds is None else now + time_limit_seconds
        self._cancelled = cancelled
        self._ask_at = now

    def stop(self) -> Stop | None:
        """Return why to stop now, or None."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            return Stop.TIME_LIMIT
        if now >= self._ask_at:
            # Asking may cost a query, so it is not done at every look.
            self._ask_at = now + ASK_EVERY_SECONDS
            if self._cancelled():
                return Stop.CANCELLED
        return None

    def wait(self) -> float:
        """Return for how many seconds nothing needs to be looked at."""
        if self._deadline is None:
            return LOOK_EVERY_SECONDS
        return max(0.0, min(LOOK_EVERY_SECONDS, self._deadline - time.monotonic()))


class Output:
    """Passes each stream on up to a limit in bytes, and counts all of it."""

    def __init__(self, limit: int, on_output: OnOutput) -> None:
        self.seen: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        self._limit = limit
        self._on_output = on_output
        self._started = time.monotonic()

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take the next bytes of a stream."""
        room = self._limit - self.seen[stream]
        self.seen[stream] += len(data)
        if room > 0 and data:
            self._on_output(stream, data[:room])

    def mute(self) -> None:
        """Pass nothing more on; go on counting."""
        self._limit = 0

    def result(
        self,
        exit_code: int,
        *,
        stop: Stop | None = None,
        timed_out: bool = False,
        session_lost: bool = False,
    ) -> CommandResult:
        """Return how the command ended, with what is known of its output."""
        return CommandResult(
            exit_code=exit_code,
            timed_out=timed_out or stop is Stop.TIME_LIMIT,
            cancelled=stop is Stop.CANCELLED,
            stdout_truncated=self.seen["stdout"] > self._limit,
            stderr_truncated=self.seen["stderr"] > self._limit,
            stdout_bytes=self.seen["stdout"],
            stderr_bytes=self.seen["stderr"],
            duration_ms=round((time.monotonic() - self._started) * 1000),
            session_lost=session_lost,
        )


@dataclass
class Inlet:
    """Where a command's bytes come from; `read` returns b"" at the end, None for not yet."""

    fileno: int
    read: Callable[[int], bytes | None]
    sink: Callable[[bytes], None]

    def pull(self) -> bool:
        """Take what is there; say whether more may come."""
        data = self.read(CHUNK)
        if data:
            self.sink(data)
        return data != b""


@dataclass
class Outlet:
    """Where a command's stdin goes; it is closed when all is written or nobody reads any more."""

    fileno: int
    write: Callable[[memoryview], int]
    close: Callable[[], None]
    data: memoryview

    def push(self) -> bool:
        """Write what fits; say whether there is more."""
        try:
            while self.data:
                self.data = self.data[self.write(self.data[:CHUNK]) :]
        except BlockingIOError:
            return True
        except (BrokenPipeError, ConnectionResetError):
            self.data = self.data[:0]
        self.close()
        return False


@dataclass
class Pump:
    """Carries bytes until every inlet is at its end and `ended()` says the command is over."""

    inlets: list[Inlet]
    outlet: Outlet | None
    ended: Callable[[], bool]

    def run(self, watch: Watch) -> Stop | None:
        """Carry until the command is over (None) or has to stop (why); the caller kills it then."""
        if self.outlet and not self.outlet.push():
            self.outlet = None
        while self.inlets or not self.ended():
            moved = self._turn(watch.wait())
            if stop := watch.stop():
                return stop
            if self.inlets and not moved and self.ended():
                # Something the command left running holds its output open, perhaps for ever.
                self.drain()
                return None
        return None

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take what a command that is over had still written, until it is quiet."""
        self.outlet = None
        deadline = time.monotonic() + seconds
        while self.inlets and time.monotonic() < deadline:
            if not self._turn(QUIET_SECONDS):
                return

    def _turn(self, seconds: float) -> bool:
        """Wait for something to happen, let it, and say whether output came."""
        if not self.inlets:
            # The streams are closed and the process is about to end, or has closed them early.
            seconds = min(seconds, 0.005)
        ready = dict(self._registered().poll(seconds * 1000))
        if (
            self.outlet
            and ready.get(self.outlet.fileno, 0) & ~select.POLLIN
            and not self.outlet.push()
        ):
            self.outlet = None
        came = [inlet for inlet in self.inlets if ready.get(inlet.fileno, 0) & _READABLE]
        for inlet in came:
            if not inlet.pull():
                self.inlets.remove(inlet)
        return bool(came)

    def _registered(self) -> select.poll:
        poll = select.poll()
        for inlet in self.inlets:
            poll.register(inlet.fileno, select.POLLIN)
        if self.outlet:
            both = any(inlet.fileno == self.outlet.fileno for inlet in self.inlets)
            poll.register(self.outlet.fileno, select.POLLOUT | (select.POLLIN if both else 0))
        return poll


def read_pipe(fileno: int) -> Callable[[int], bytes | None]:
    """Return a reader of a pipe that never waits."""
    os.set_blocking(fileno, False)

    def read(size: int) -> bytes | None:
        try:
            return os.read(fileno, size)
        except BlockingIOError:
            return None

    return read
