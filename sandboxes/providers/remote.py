"""A command in a hosted sandbox, whose output a vendor's SDK hands over in a blocking way.

A thread listens, a bounded queue holds back what comes too fast, and whoever waits can stop at any
moment. The command's end is told in its own stderr by the shell that started it: vendors wait
for every process that holds the output open, and some only know that a signal ended it.
"""

from __future__ import annotations

import queue
import random
import secrets
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Self

from omniweb.core.errors import ProviderUnavailable
from omniweb.core.text import visible
from sandboxes.providers.base import Stream
from sandboxes.providers.limits import DRAIN_SECONDS, QUIET_SECONDS
from sandboxes.providers.pump import Output, Stop, Watch
from sandboxes.providers.shell import UNKNOWN_EXIT

Chunk = tuple[Stream, bytes]

# Chunks that may wait to be taken; vendors send at most 64 KiB in one.
_WAITING_CHUNKS = 64
_CLOSED_LOOK_SECONDS = 0.5
# Shown of what a vendor says.
_SAID_CHARACTERS = 500
_SECRET_CHARACTERS = 6


class Tail:
    """Takes a mark, a space, an exit code and a line break out of a stream, wherever chunks end."""

    def __init__(self, mark: str) -> None:
        self._mark = f"{mark} ".encode()
        self._held = b""
        self.code: int | None = None

    def feed(self, data: bytes) -> bytes:
        """Return what is known not to belong to the mark."""
        if self.code is not None:
            return data
        data, self._held = self._held + data, b""
        start = data.find(self._mark)
        if start < 0:
            start = len(data) - _overlap(data, self._mark)
            self._held = data[start:]
            return data[:start]
        number, ended, rest = data[start + len(self._mark) :].partition(b"\n")
        if not ended:
            self._held = data[start:]
            return data[:start]
        self.code = int(number)
        return data[:start] + rest

    def rest(self) -> bytes:
        """Return what was held back for a mark that never came."""
        held, self._held = self._held, b""
        return held


def _overlap(data: bytes, mark: bytes) -> int:
    """Return how many bytes at the end of data may be the beginning of a mark."""
    sizes = range(min(len(data), len(mark) - 1), 0, -1)
    return next((size for size in sizes if data.endswith(mark[:size])), 0)


class RemoteProcess:
    """One command; a context manager, in which it runs.

    A vendor's own class starts it with `mark` as the mark of its end (see `guest.watched`) and
    says in `chunks` what comes out of it.
    """

    def __init__(self, output: Output) -> None:
        self.mark = secrets.token_hex(16)
        self.exit_code = UNKNOWN_EXIT
        self._output = output
        self._tail = Tail(self.mark)
        self._came: queue.Queue[Chunk | Exception | None] = queue.Queue(_WAITING_CHUNKS)
        self._closed = threading.Event()

    @abstractmethod
    def chunks(self) -> Iterable[Chunk]:
        """Yield output as it comes until the command has ended, then set `exit_code` if it is known.

        Runs in a thread of its own. Raises the provider's errors.
        """

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, name="hosted command", daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()

    def _listen(self) -> None:
        ended: Exception | None = None
        try:
            for chunk in self.chunks():
                if not self._put(chunk):
                    return
        except Exception as error:  # noqa: BLE001 -- raised again where the command is waited for
            ended = error
        self._put(ended)

    def _put(self, item: Chunk | Exception | None) -> bool:
        """Hand something over; False when nobody will take it any more."""
        while not self._closed.is_set():
            try:
                self._came.put(item, timeout=_CLOSED_LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def run(self, watch: Watch) -> Stop | None:
        """Carry its bytes until it ends (None) or has to stop (why)."""
        while self._turn(watch.wait()) is not False:
            if stop := watch.stop():
                return stop
            if self._tail.code is not None:
                # What it left running holds its output open, perhaps for ever.
                self.drain()
                break
        if self._tail.code is not None:
            self.exit_code = self._tail.code
        return None

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take what it had still written, until it is quiet."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._turn(QUIET_SECONDS):
            pass

    def _turn(self, seconds: float) -> bool | None:
        """Take one thing: True for output, None for silence, False at the end. Raises its error."""
        try:
            item = self._came.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if isinstance(item, tuple):
            stream, data = item
            self._output.feed(stream, self._tail.feed(data) if stream == "stderr" else data)
            return True
        self._output.feed("stderr", self._tail.rest())
        # Told again to whoever comes after: the end does not go away.
        self._came.put(item)
        if item is not None and self._tail.code is None:
            raise item
        return False


def spoken(text: object, hidden: Iterable[str | None] = ()) -> str:
    """Return a vendor's words fit to be kept and read: cut, visible, without secrets."""
    said = " ".join(str(text).split())
    for secret in sorted(_secrets(hidden), key=len, reverse=True):
        said = said.replace(secret, "********")
    return visible(f"{said[:_SAID_CHARACTERS]}…" if len(said) > _SAID_CHARACTERS else said, keep="")


def _secrets(hidden: Iterable[str | None]) -> Iterator[str]:
    return (one for one in hidden if one and len(one) >= _SECRET_CHARACTERS)


def again[T](act: Callable[[], T], *, attempts: int = 3, pause_seconds: float = 0.5) -> T:
    """Return what an act returns that may be done twice, tried again where nobody answers.

    Waits ever longer in between, and never as long as others do. Raises ProviderUnavailable.
    """
    for attempt in range(attempts - 1):
        with suppress(ProviderUnavailable):
            return act()
        time.sleep(pause_seconds * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 -- no secret
    return act()
