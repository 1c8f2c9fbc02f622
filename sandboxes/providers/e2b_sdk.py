"""The SDK of E2B: whom calls are made as, what it raises in our words, and commands through it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, Self

import e2b
import httpx
import pyqwest
from connectrpc.errors import ConnectError
from e2b.envd.rpc import handle_rpc_exception_with_health
from protobuf import Oneof

from omniweb.core.errors import (
    CommandLost,
    Conflict,
    OmniWebError,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes.providers import guest
from sandboxes.providers.base import EXIT_KILLED
from sandboxes.providers.limits import KIB
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Put, RemoteProcess, is_gibberish, spoken

REQUEST_SECONDS = 60.0
TRANSFER_SECONDS = 300.0
# One argument of a program takes 128 KiB; what is longer goes to a file first.
LINE_BYTES = 100 * KIB

_first_use: list[int] = []


def params(key: str | None) -> Any:
    """Return whom every call is made as, and for how long; raises ProviderMissing for no key."""
    if not key:
        raise ProviderMissing("E2B needs a key: set E2B_API_KEY, or the option api_key")
    _check_process()
    # With debug on, the SDK would make and end nothing, whatever it says.
    return {"api_key": key, "request_timeout": REQUEST_SECONDS, "debug": False}


def _check_process() -> None:
    """Refuse to work in a fork of a process that has used the SDK: it would hang for ever."""
    if not _first_use:
        _first_use.append(os.getpid())
    if _first_use[0] != os.getpid():
        raise ProviderError(
            "E2B was used before this process was forked, and its SDK does not survive that: "
            "run workers with the threads pool"
        )


_RAISED = (
    e2b.SandboxException,
    # These are no SandboxExceptions.
    e2b.AuthenticationException,
    e2b.BuildException,
    e2b.ServiceBusyException,
    ConnectError,
    httpx.HTTPError,
    pyqwest.ReadError,
    pyqwest.WriteError,
    pyqwest.StreamError,
    OSError,
)
NO_VENDOR = "What answers in E2B's place does not speak as E2B does: check E2B_API_URL"
_BUSY = (e2b.RateLimitException, e2b.ServiceBusyException)
_GONE = (
    # A kind of time-out to the SDK, so it is looked for before those.
    e2b.SandboxNotRunningException,
    e2b.SandboxNotFoundException,
)


@contextmanager
def calls(refused: type[ProviderError], hidden: Sequence[str | None]) -> Iterator[None]:
    """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
    try:
        yield
    except OmniWebError:
        raise
    except _RAISED as error:
        # What the SDK says can quote what it was given; the cause would be logged with it.
        raise _explained(error, refused, hidden) from None
    except Exception as error:
        if not is_gibberish(error):
            raise
        raise ProviderUnavailable(NO_VENDOR) from None


def _explained(
    error: BaseException, refused: type[ProviderError], hidden: Sequence[str | None]
) -> OmniWebError:
    said = spoken(error, hidden)
    status = getattr(error, "status_code", None) or 0
    if isinstance(error, _GONE):
        return SandboxLost()
    if isinstance(error, e2b.AuthenticationException):
        return ProviderMissing("E2B does not take the key: check E2B_API_KEY or the option api_key")
    if isinstance(error, _BUSY):
        return ProviderUnavailable(f"E2B takes no more requests for now: {said}")
    if isinstance(error, e2b.NotEnoughSpaceException):
        return TooLarge("It does not fit: the sandbox has no room left")
    if isinstance(error, e2b.BuildException):
        return SandboxUnsupported(f"E2B cannot make a template of the image: {said}")
    refusals = (e2b.InvalidArgumentException, e2b.NotFoundException)
    if isinstance(error, refusals) or 400 <= status < 500:
        return refused(f"E2B refused: {said}")
    if isinstance(error, e2b.CommandExitException):
        return refused(f"E2B could not prepare the sandbox: {said}")
    return ProviderUnavailable(f"E2B cannot be reached: {said or type(error).__name__}")


class Place(Protocol):
    """A sandbox that commands are started in."""

    def inside(self) -> e2b.Sandbox:
        """Return the SDK's sandbox; raises Conflict, SandboxLost and ProviderUnavailable."""

    def calls(self, refused: type[ProviderError] = ProviderError) -> AbstractContextManager[None]:
        """Turn what the SDK raises into what it means for this sandbox."""


class E2bProcess(RemoteProcess):
    """One command of an E2B sandbox."""

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
        self._sandbox, self._env = sandbox, dict(env)
        self._inside = sandbox.inside()
        held = f"/tmp/.omniweb-{self.mark}"  # noqa: S108 -- in the sandbox
        source = ""
        if stdin is not None:
            source = f"{held}.in"
            self._send(source, stdin)
        line = f"exec {shlex.join(guest.watched(self.mark, argv, source))}"
        data = line.encode(errors="surrogateescape")
        self._line = line
        if len(data) > LINE_BYTES or "\N{REPLACEMENT CHARACTER}" in data.decode(errors="replace"):
            self._send(f"{held}.sh", b"rm -f -- %s.sh\n%s\n" % (held.encode(), data))
            self._line = f". {held}.sh"

    def _send(self, path: str, data: bytes) -> None:
        with self._sandbox.calls():
            self._inside.files.write(
                path, data, use_octet_stream=True, request_timeout=TRANSFER_SECONDS
            )

    def __enter__(self) -> Self:
        with self._sandbox.calls():
            # Its time limit is watched here, where all that it started is killed with it.
            self._handle = self._inside.commands.run(
                self._line, background=True, envs=self._env, timeout=0, retain_output=False
            )
        return super().__enter__()

    def listen(self, put: Put) -> None:
        try:
            with self._sandbox.calls():
                self._carry(put)
        except Conflict as error:
            raise CommandLost(f"{error.detail}; it was paused while a command ran") from None

    def _carry(self, put: Put) -> None:
        """Hand over what the SDK would only pass on as text, in which bytes get lost."""
        handle = self._handle
        try:
            for response in handle._events:
                # A silent command is heard of every 50 seconds, so this thread ends, too.
                if self.closed.is_set():
                    return
                event: Any = response.event.event if response.event else None
                match event:
                    case Oneof(field="data", value=data) if data.output is not None:
                        put(data.output.field, data.output.value)
                    case Oneof(field="end", value=end):
                        # What a signal ended has no exit code there.
                        self.exit_code = EXIT_KILLED if end.exit_code < 0 else end.exit_code
                        return
        except _RAISED as error:
            raise handle_rpc_exception_with_health(error, handle._check_health) from None
        raise e2b.SandboxUnreachableException("the output ended before the command did")
