"""The SDK of Vercel Sandbox: its client, what it raises in our words, and commands through it."""

from __future__ import annotations

import base64
import io
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Protocol, TextIO, cast

import httpx2
from vercel.sandbox import sync as vercel

from omniweb.core.errors import (
    OmniWebError,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
)
from sandboxes.providers import guest
from sandboxes.providers.base import Stream
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Put, RemoteProcess, Spelt, spoken

TRANSFER_TIME = timedelta(minutes=5)
# A session that has ended answers with these; the SDK would start another one unseen.
ENDED = ("sandbox_stopped", "sandbox_stopping", "sandbox_snapshotting", "sandbox_stream_closed")


def client(token: str, team: str, project: str, url: str | None) -> vercel.SyncSandboxClient:
    """Return a client for these credentials; calls nobody yet.

    The SDK would look for what is missing in files and at other services; here it is given all.
    """
    credentials = vercel.SandboxCredentials(token=token, team_id=team, project_id=project)
    options = vercel.SandboxServiceOptions(
        base_url=url,
        credentials_factory=lambda: credentials,
        file_transfer_timeout=TRANSFER_TIME,
    )
    return vercel.SyncSandboxClient.create(options=options)


@contextmanager
def calls(refused: type[ProviderError], hidden: Sequence[str | None]) -> Iterator[None]:
    """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
    try:
        yield
    except OmniWebError:
        raise
    except (vercel.SandboxError, httpx2.HTTPError, OSError) as error:
        # What the SDK says can quote what it was given; the cause would be logged with it.
        raise _explained(error, refused, hidden) from None


def _explained(
    error: BaseException, refused: type[ProviderError], hidden: Sequence[str | None]
) -> OmniWebError:
    said = spoken(error, hidden)
    if isinstance(error, vercel.SandboxStdinError):
        error = error.cause
    status, code = getattr(error, "status_code", 0), getattr(error, "code", None)
    if status in (404, 410) or code in ENDED:
        return SandboxLost(said)
    if status in (401, 403):
        return ProviderMissing("Vercel does not take the token: check VERCEL_TOKEN and its team")
    if status == 429 and isinstance(error, vercel.SandboxApiError):
        later = str(error.response.headers.get("Retry-After", ""))
        extra = {"retry_after": int(later)} if later.isdecimal() else {}
        return ProviderUnavailable(f"Vercel takes no more requests for now: {said}", **extra)
    if 400 <= status < 500 or isinstance(error, vercel.SandboxTerminalStateError):
        return refused(f"Vercel refused: {said}")
    return ProviderUnavailable(f"Vercel cannot be reached: {said}")


class Place(Protocol):
    """A sandbox that commands are started in."""

    def inside(self) -> vercel.SyncSandboxRuntimeSession:
        """Return the SDK's session; raises SandboxLost and ProviderUnavailable."""

    def calls(self, refused: type[ProviderError] = ProviderError) -> AbstractContextManager[None]:
        """Turn what the SDK raises into what it means for this sandbox."""


class _Taken(io.TextIOBase):
    """A text file that hands on what is written to it."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._take(text)
        return len(text)


class VercelProcess(RemoteProcess):
    """One command of a Vercel sandbox, in the one session it was found with."""

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
        self._sandbox, self._env, self._stdin = sandbox, dict(env), stdin
        self._inside = sandbox.inside()
        pipes = f"/tmp/.omniweb-{self.mark}"  # noqa: S108 -- in the sandbox
        source = "" if stdin is None else guest.INHERITED
        self._argv = _carried(guest.spelt(argv, pipes, source))

    def listen(self, put: Put) -> None:
        def reader(stream: Stream) -> TextIO:
            spelt = Spelt()

            def take(text: str) -> None:
                for data in spelt.feed(text):
                    put(stream, data)

            return cast("TextIO", _Taken(take))

        with self._sandbox.calls(refused=ProviderUnavailable):
            # Without these, its output would be printed as ours.
            done = self._inside.run_process(
                self._argv[0],
                self._argv[1:],
                env=self._env,
                stdout=reader("stdout"),
                stderr=reader("stderr"),
                input=self._stdin,
            )
        self.told = done.returncode


def _carried(argv: Sequence[str]) -> Sequence[str]:
    """Return a command as JSON can carry it: bytes that are no text are spelt, and read inside."""
    line = shlex.join(argv)
    try:
        line.encode()
    except UnicodeEncodeError:
        spelt = base64.b64encode(line.encode(errors="surrogateescape")).decode()
        return ["sh", "-c", 'eval "$(printf %s "$0" | base64 -d)"', spelt]
    return argv
