"""The SDK of Daytona: its client, what it raises in our words, and commands through its sessions."""

from __future__ import annotations

import asyncio
import shlex
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, Self

import daytona
import httpx
import httpx_ws
import urllib3
import urllib3.exceptions
from daytona.common.process import SessionExecuteRequest

from omniweb.core.errors import (
    CommandLost,
    Conflict,
    OmniWebError,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
)
from sandboxes.providers import guest
from sandboxes.providers.base import Stream
from sandboxes.providers.pump import Output, Stop, Watch
from sandboxes.providers.remote import Put, RemoteProcess, Spelt, again, is_gibberish, spoken

REQUEST_SECONDS = 60.0
TRANSFER_SECONDS = 300
# The exit code of a command is known a moment after its output has ended.
CODE_SECONDS = 10.0


def client(key: str | None, url: str | None, target: str | None) -> daytona.Daytona:
    """Return a client; raises ProviderMissing for no key. Calls nobody yet.

    The SDK would read what is missing from files in the working directory; here it is given all.
    """
    if not key:
        raise ProviderMissing("Daytona needs a key: set DAYTONA_API_KEY, or the option api_key")
    config = daytona.DaytonaConfig(
        api_key=key,
        api_url=url or "https://app.daytona.io/api",
        target=target or "",
        # Otherwise each client keeps a thread and a socket for events that nobody here needs.
        use_deprecated_polling=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = daytona.Daytona(config)
    # An empty one had it look for another.
    made._target = target
    for api in (made._api_client, made._toolbox_api_client):
        # What starts a command would be sent again after a lost answer, and so start it twice; and a
        # wish to wait would be heeded for hours, unseen.
        once = urllib3.Retry(0, respect_retry_after_header=False)
        api.rest_client.pool_manager.connection_pool_kw["retries"] = once
    return made


NO_VENDOR = (
    "What answers in Daytona's place does not speak as Daytona does: check DAYTONA_API_URL or the "
    "option api_url"
)
_AWAY = (OSError, httpx.TransportError, httpx_ws.HTTPXWSException, urllib3.exceptions.HTTPError)


@contextmanager
def calls(refused: type[ProviderError], hidden: Sequence[str | None]) -> Iterator[None]:
    """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
    try:
        yield
    except OmniWebError:
        raise
    except (daytona.DaytonaError, *_AWAY) as error:
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
    if isinstance(error, (daytona.DaytonaNotFoundError, daytona.DaytonaGoneError)):
        return SandboxLost(said)
    if isinstance(error, daytona.DaytonaAuthenticationError):
        return ProviderMissing(
            "Daytona does not take the key: check DAYTONA_API_KEY or the option api_key"
        )
    if isinstance(error, daytona.DaytonaRateLimitError):
        later = str(error.headers.get("Retry-After", ""))
        extra = {"retry_after": int(later)} if later.isdecimal() else {}
        return ProviderUnavailable(f"Daytona takes no more requests for now: {said}", **extra)
    if any(map(is_gibberish, _chain(error))):
        return ProviderUnavailable(NO_VENDOR)
    status = getattr(error, "status_code", None) or 0
    away = (daytona.DaytonaConnectionError, daytona.DaytonaTimeoutError, *_AWAY)
    if status >= 500 or any(isinstance(one, away) for one in _chain(error)):
        return ProviderUnavailable(f"Daytona cannot be reached: {said}")
    return refused(f"Daytona refused: {said}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from: a refused connection has no class of its own."""
    while error is not None:
        yield error
        error = error.__cause__


class Place(Protocol):
    """A sandbox that commands are started in."""

    def inside(self) -> daytona.Sandbox:
        """Return the SDK's sandbox; raises Conflict, SandboxLost and ProviderUnavailable."""

    def calls(self, refused: type[ProviderError] = ProviderError) -> AbstractContextManager[None]:
        """Turn what the SDK raises into what it means for this sandbox."""


class DaytonaProcess(RemoteProcess):
    """One command of a Daytona sandbox, in a session of its own.

    Sessions tell stdout from stderr and both while they come, which a plain command there does not.
    """

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
        self._sandbox = sandbox
        self._inside = sandbox.inside()
        self._session = f"omniweb-{self.mark}"
        self._read: dict[Stream, Spelt] = {"stdout": Spelt(), "stderr": Spelt()}
        self._leaves = False
        held = f"/tmp/.{self._session}"  # noqa: S108 -- in the sandbox
        source = ""
        if stdin is not None:
            source = f"{held}.in"
            self._send(source, stdin)
        # A session has neither variables nor a directory to be set.
        variables = [f"{name}={value}" for name, value in env.items()]
        line = shlex.join(["env", *variables, *guest.spelt(argv, held, source)])
        try:
            line.encode()
        except UnicodeEncodeError:
            script = f"{held}.sh"
            data = line.encode(errors="surrogateescape")
            self._send(script, b"rm -f -- %s\n%s\n" % (script.encode(), data))
            line = f"sh {script}"
        self._line = line
        # Before anything can have run, so that it may be tried again.
        again(self._open)

    def _open(self) -> None:
        with self._sandbox.calls(), suppress(daytona.DaytonaConflictError):
            self._inside.process.create_session(self._session, request_timeout=REQUEST_SECONDS)

    def _send(self, path: str, data: bytes) -> None:
        with self._sandbox.calls():
            self._inside.fs.upload_file(data, path, TRANSFER_SECONDS)

    def __enter__(self) -> Self:
        request = SessionExecuteRequest(command=self._line, run_async=True)
        with self._sandbox.calls():
            # The limit is one for the answer; the command's own is watched here.
            started = self._inside.process.execute_session_command(
                self._session, request, timeout=int(REQUEST_SECONDS)
            )
        self._command: str = started.cmd_id
        return super().__enter__()

    def run(self, watch: Watch) -> Stop | None:
        stop = super().run(watch)
        # What a command has left running still holds its output, and goes on in the session.
        self._leaves = not stop and not all(one.is_over for one in self._read.values())
        return stop

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if not self._leaves:
            with suppress(OmniWebError), self._sandbox.calls():
                self._inside.process.delete_session(self._session, request_timeout=REQUEST_SECONDS)

    def listen(self, put: Put) -> None:
        def take(stream: Stream, text: str) -> None:
            for data in self._read[stream].feed(text):
                put(stream, data)

        try:
            # Whatever goes wrong from here on, the command has been started.
            with self._sandbox.calls(refused=ProviderUnavailable):
                asyncio.run(
                    self._inside.process.get_session_command_logs_async(
                        self._session,
                        self._command,
                        lambda text: take("stdout", text),
                        lambda text: take("stderr", text),
                    )
                )
                self.told = self._code()
        except Conflict as error:
            raise CommandLost(f"{error.detail}; it was paused while a command ran") from None
        if self.told is None:
            raise CommandLost("Daytona does not tell how the command ended")

    def _code(self) -> int | None:
        """Return the exit code once it is known, None when it never is."""
        deadline = time.monotonic() + CODE_SECONDS
        while not self.closed.is_set():
            found: Any = self._inside.process.get_session_command(
                self._session, self._command, request_timeout=REQUEST_SECONDS
            ).exit_code
            if found is not None or time.monotonic() > deadline:
                return None if found is None else int(found)
            time.sleep(0.1)
        return None
