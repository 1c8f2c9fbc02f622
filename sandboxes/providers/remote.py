"""A command in a hosted sandbox, whose output a vendor's SDK hands over in a blocking way.

A thread listens, a bounded queue holds back what comes too fast, and whoever waits can stop at any
moment. The command's end is told in its own stderr by the shell that started it: vendors wait
for every process that holds the output open, and some only know that a signal ended it.
"""

from __future__ import annotations

import base64
import binascii
import queue
import random
import secrets
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import NoReturn, Self

from omniweb.core.errors import ProviderUnavailable
from omniweb.core.text import visible
from sandboxes.providers.base import Stream
from sandboxes.providers.limits import DRAIN_SECONDS, QUIET_SECONDS
from sandboxes.providers.pump import Output, Stop, Watch
from sandboxes.providers.shell import UNKNOWN_EXIT

Put = Callable[[Stream, bytes], None]

# Chunks that may wait to be taken; vendors send at most 64 KiB in one.
_WAITING_CHUNKS = 64
_CLOSED_LOOK_SECONDS = 0.5
# Shown of what a vendor says.
_SAID_CHARACTERS = 500
_SECRET_CHARACTERS = 6
# The longest a vendor's wish to be asked later is heeded.
_LONGEST_PAUSE_SECONDS = 30.0


class Closed(Exception):
    """Nobody takes the output of a command any more."""


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


class Spelt:
    """Reads the lines of `guest.spelt`, which may arrive in any pieces."""

    def __init__(self) -> None:
        self._held = ""
        self.is_over = False

    def feed(self, text: str) -> Iterator[bytes]:
        """Yield the bytes that the next text stands for."""
        *lines, self._held = (self._held + text).split("\n")
        for line in lines:
            self.is_over = self.is_over or line == "."
            if line.startswith(":"):
                with suppress(binascii.Error):
                    yield base64.b64decode(line[1:])


class RemoteProcess:
    """One command; a context manager, in which it runs.

    A vendor's own class starts it and listens to it. Where `told` has its exit code, the command is
    over, whoever else still holds its output; without, `exit_code` counts once there is no more.
    """

    def __init__(self, output: Output) -> None:
        # Names what belongs to this command in the sandbox, and tells its end in its stderr.
        self.mark = secrets.token_hex(16)
        self.exit_code = UNKNOWN_EXIT
        self.told: int | None = None
        self.closed = threading.Event()
        self._output = output
        self._tail = Tail(self.mark)
        self._came: queue.Queue[tuple[Stream, bytes] | Exception | None] = queue.Queue(
            _WAITING_CHUNKS
        )

    @abstractmethod
    def listen(self, put: Put) -> None:
        """Hand output over as it comes until there is no more, then set `exit_code` if it is known.

        Runs in a thread of its own. Raises the provider's errors, and lets what `put` raises through.
        """

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, name="hosted command", daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closed.set()

    def _listen(self) -> None:
        ended: Exception | None = None
        try:
            self.listen(lambda stream, data: self._put((stream, data)))
        except Exception as error:  # noqa: BLE001 -- raised again where the command is waited for
            ended = error
        with suppress(Closed):
            self._put(ended)

    def _put(self, item: tuple[Stream, bytes] | Exception | None) -> None:
        while not self.closed.is_set():
            try:
                return self._came.put(item, timeout=_CLOSED_LOOK_SECONDS)
            except queue.Full:
                continue
        raise Closed

    def run(self, watch: Watch) -> Stop | None:
        """Carry its bytes until it ends (None) or has to stop (why)."""
        while self._turn(watch.wait()) is not False:
            if stop := watch.stop():
                return stop
            if self.told is not None:
                # What it left running holds its output open, perhaps for ever.
                self.drain()
                break
        if self.told is not None:
            self.exit_code = self.told
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
            self.told = self._tail.code if self.told is None else self.told
            return True
        self._output.feed("stderr", self._tail.rest())
        # Told again to whoever comes after: the end does not go away.
        self._came.put(item)
        if item is not None and self.told is None:
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


def is_gibberish(error: BaseException) -> bool:
    """Say whether an SDK choked on an answer that is none of its vendor's: none has a class for it."""
    choked = (ValueError, TypeError, LookupError, AttributeError)
    return type(error) is Exception or isinstance(error, choked)


def again[T](act: Callable[[], T], *, attempts: int = 3, pause_seconds: float = 0.5) -> T:
    """Return what an act returns that may be done twice, tried again where nobody answers.

    Waits ever longer in between, as long as the vendor says (`retry_after` of the error, in
    seconds), and never as long as others do. Raises ProviderUnavailable.
    """
    for attempt in range(attempts - 1):
        try:
            return act()
        except ProviderUnavailable as error:
            wanted = error.extra.get("retry_after", pause_seconds * 2**attempt)
            pause = min(wanted, _LONGEST_PAUSE_SECONDS)
            time.sleep(pause * random.uniform(1.0, 1.5))  # noqa: S311 -- no secret
    return act()


def within[T](seconds: float, act: Callable[[], T], what: str) -> T:
    """Return what an act returns, in a thread of its own: some SDKs know no time limit that is safe.

    Raises what it raises, and ProviderUnavailable naming `what` when it takes longer.
    """
    came: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def run() -> None:
        try:
            result = act()
        except Exception as error:  # noqa: BLE001 -- raised again where it is waited for
            came.put(partial(_raise, error))
        else:
            came.put(lambda: result)

    threading.Thread(target=run, name=what, daemon=True).start()
    try:
        return came.get(timeout=seconds)()
    except queue.Empty:
        raise ProviderUnavailable(f"{what} did not come to an end in {seconds:.0f} s") from None


def _raise(error: Exception) -> NoReturn:
    raise error


class Known[T]:
    """What was made for a few names and can be made again; safe to use from several threads."""

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._held: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> T | None:
        """Return what is kept under a name."""
        with self._lock:
            return self._held.get(name)

    def keep(self, name: str, thing: T) -> T:
        """Keep something, and drop what has been kept longest where that are too many."""
        with self._lock:
            self._held[name] = thing
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return thing

    def forget(self, name: str) -> None:
        """Drop what is kept under a name, if anything is."""
        with self._lock:
            self._held.pop(name, None)
