"""The SDK of Modal: its client, what it raises in our words, and commands through it."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from asyncio import FIRST_COMPLETED
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Any, Protocol, Self

import grpclib
import modal
from grpclib.exceptions import StreamTerminatedError
from modal.config import config

from omniweb.core.errors import (
    OmniWebError,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.providers import guest
from sandboxes.providers.base import Stream
from sandboxes.providers.limits import KIB, MIB
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known, Put, RemoteProcess, Tail, spoken, within
from sandboxes.providers.shell import UNKNOWN_EXIT

# The SDK tries for a minute to reach whoever is not there.
REQUEST_SECONDS = 30.0
TRANSFER_SECONDS = 300.0
# The exit code of a command is known a moment after its output has ended.
CODE_SECONDS = 10.0
CLOSED_LOOK_SECONDS = 0.5
# The SDK takes 64 KiB of arguments; what is longer goes to a file first.
LINE_BYTES = 60 * KIB
STDIN_BYTES = MIB

_clients: Known[Future[modal.Client]] = Known(8)
_lock = threading.Lock()


def credentials() -> tuple[str | None, str | None]:
    """Return the token of the environment as it is now, or of the file `modal token new` writes."""
    return config.get("token_id"), config.get("token_secret")


def client() -> modal.Client:
    """Return the client for the credentials there are now; raises ProviderMissing for none.

    It connects, which may take long. All share it: the SDK keeps each until the process ends.
    """
    token, secret = credentials()
    if not (token and secret):
        raise ProviderMissing(
            "Modal needs a token: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal token new`"
        )
    # A connection does not survive a fork.
    name = repr((token, secret, config.get("server_url"), os.getpid()))
    with _lock:
        coming = _clients.get(name)
        is_mine = coming is None or (coming.done() and coming.exception() is not None)
        if coming is None or is_mine:
            coming = _clients.keep(name, Future())
    if is_mine:
        try:
            coming.set_result(modal.Client.from_credentials(token, secret))
        except BaseException as error:
            # Or others would wait for it for ever.
            coming.set_exception(error)
            raise
    return coming.result()


_RAISED = (modal.exception.Error, grpclib.GRPCError, StreamTerminatedError, OSError)
_AWAY = (
    modal.exception.ServiceError,
    modal.exception.InternalError,
    modal.exception.ConnectionError,
    modal.exception.TimeoutError,
    modal.exception.ClientClosed,
    StreamTerminatedError,
    OSError,
)


@contextmanager
def calls(refused: type[ProviderError], hidden: Sequence[str | None]) -> Iterator[None]:
    """Turn what the SDK raises into the provider's errors; `refused` is for what it may not do."""
    try:
        yield
    except OmniWebError:
        raise
    except _RAISED as error:
        # What the SDK says can quote what it was given; the cause would be logged with it.
        raise _explained(error, refused, hidden) from None


def _explained(
    error: BaseException, refused: type[ProviderError], hidden: Sequence[str | None]
) -> OmniWebError:
    said = spoken(error, hidden)
    if isinstance(error, modal.exception.NotFoundError):
        return SandboxLost(said)
    if isinstance(error, modal.exception.AuthError):
        return ProviderMissing(
            "Modal does not take the token: check MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
        )
    if isinstance(error, modal.exception.ResourceExhaustedError):
        return ProviderUnavailable(f"Modal takes no more requests for now: {said}")
    if isinstance(error, modal.exception.ImageBuildError):
        return SandboxUnsupported(f"Modal cannot make the image: {said}")
    if isinstance(error, _AWAY):
        return ProviderUnavailable(f"Modal cannot be reached: {said or type(error).__name__}")
    return refused(f"Modal refused: {said}")


class Place(Protocol):
    """A sandbox that commands are started in."""

    def inside(self) -> modal.Sandbox:
        """Return the SDK's sandbox; raises SandboxLost and ProviderUnavailable."""

    def calls(self, refused: type[ProviderError] = ProviderError) -> AbstractContextManager[None]:
        """Turn what the SDK raises into what it means for this sandbox."""


class ModalProcess(RemoteProcess):
    """One command of a Modal sandbox, whose two streams are read apart from each other."""

    def __init__(
        self,
        sandbox: Place,
        argv: Sequence[str],
        output: Output,
        *,
        env: Mapping[str, str],
        stdin: bytes | None,
    ) -> None:
        super().__init__(output)
        self._sandbox, self._stdin = sandbox, stdin
        self._inside = sandbox.inside()
        variables = [f"{name}={value}" for name, value in env.items()]
        source = "" if stdin is None else guest.INHERITED
        line = ["env", *variables, *guest.watched(self.mark, argv, source, both=True)]
        self._argv = self._carried(line)

    def _carried(self, argv: Sequence[str]) -> Sequence[str]:
        """Return a command as Modal takes it: what is too long, or no text, is put into a file."""
        data = shlex.join(argv).encode(errors="surrogateescape")
        if len(data) <= LINE_BYTES and "\N{REPLACEMENT CHARACTER}" not in data.decode(
            errors="replace"
        ):
            return argv
        script = f"/tmp/.omniweb-{self.mark}.sh"  # noqa: S108 -- in the sandbox
        with self._sandbox.calls():
            within(TRANSFER_SECONDS, lambda: self._send(script, data), "Sending a command to Modal")
        return ["sh", script]

    def _send(self, path: str, data: bytes) -> None:
        taking = self._inside.exec("sh", "-c", 'cat > "$0"', path, text=False)
        taking.stdin.write(b"rm -f -- %s\nexec %s\n" % (path.encode(), data))
        taking.stdin.write_eof()
        taking.stdin.drain()
        if taking.wait():
            said = taking.stderr.read().decode(errors="replace")
            raise ProviderError(f"The sandbox takes no command that is this long: {spoken(said)}")

    def __enter__(self) -> Self:
        with self._sandbox.calls():
            # Its time limit is watched here, where all that it started is killed with it.
            self._process: Any = within(
                REQUEST_SECONDS,
                lambda: self._inside.exec(*self._argv, text=False),
                "Starting a command in a Modal sandbox",
            )
        return super().__enter__()

    def listen(self, put: Put) -> None:
        # Whatever goes wrong from here on, the command has been started.
        with self._sandbox.calls(refused=ProviderUnavailable):
            asyncio.run(self._carry(put))

    async def _carry(self, put: Put) -> None:
        """Read both streams to their ends; what is left then is cancelled with the loop."""
        reading = asyncio.gather(self._read("stdout", put), self._read("stderr", put))
        # Kept here, or it could be collected while it works.
        writing = asyncio.ensure_future(self._write())
        pending: set[asyncio.Future[Any]] = {reading, writing}
        while not reading.done():
            await asyncio.wait(pending, timeout=CLOSED_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            if self.closed.is_set():
                return
            if writing.done():
                writing.result()
                pending = {reading}
        codes = reading.result()
        self.exit_code = await self._code() if codes[1] is None else codes[1]

    async def _read(self, stream: Stream, put: Put) -> int | None:
        """Hand over one stream up to the mark of its end; return the exit code it tells."""
        tail = Tail(self.mark)
        async with aclosing(aiter(getattr(self._process, stream))) as came:
            async for data in came:
                put(stream, tail.feed(data))
                if tail.code is not None:
                    return tail.code
        put(stream, tail.rest())
        return None

    async def _write(self) -> None:
        """Give the command its stdin, for as long as it takes any."""
        if self._stdin is None:
            return
        pipe, data = self._process.stdin, memoryview(self._stdin)
        try:
            for start in range(0, len(data), STDIN_BYTES):
                pipe.write(data[start : start + STDIN_BYTES])
                await pipe.drain.aio()
            pipe.write_eof()
            await pipe.drain.aio()
        except modal.exception.Error as error:
            if isinstance(error, _AWAY):
                raise

    async def _code(self) -> int:
        """Return the exit code of a command whose shell did not tell it."""
        async with asyncio.timeout(CODE_SECONDS):
            code: int = await self._process.wait.aio()
        # Said of a time limit, and none was set.
        return UNKNOWN_EXIT if code < 0 else code
