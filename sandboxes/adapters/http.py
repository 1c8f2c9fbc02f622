"""Sandboxes of a service that answers the five requests (requirement document 1, "HTTP").

The service keeps what it promises; this end keeps to the protocol, waits for nothing without an
end, and believes nothing it has not checked.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn
from urllib.parse import quote

from omniweb.core.errors import (
    InvalidInput,
    NotFound,
    OmniWebError,
    ProviderError,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes.manifest import Manifest
from sandboxes.providers.base import (
    EXIT_KILLED,
    Cancelled,
    Command,
    CommandResult,
    FileEntry,
    Handle,
    LiveSandbox,
    OnOutput,
    Owned,
    Owner,
    SandboxProvider,
    Stream,
)
from sandboxes.providers.limits import KIB, MAX_FILE_BYTES, MIB
from sandboxes.providers.paths import confined
from sandboxes.providers.pump import Output, Watch
from sandboxes.providers.service import Answer, Service, Silence, json_bytes
from sandboxes.providers.spec import ProviderSpec

JSON = "application/json"
SESSION_BYTES = 64 * KIB
# JSON can write one byte as six characters (\u0000), and there are two streams.
RESULT_BYTES_PER_BYTE = 12
RESULT_BYTES = 16 * MIB
# Given to a service to tell that it stopped a command at its time limit.
GRACE_SECONDS = 10.0
END_SECONDS = 30.0
MAX_SESSION_CHARACTERS = 512
GONE = (404, 410)
# Of the 4xx, those that say nothing about the manifest.
NOT_ABOUT_THE_MANIFEST = (401, 407, 408, 429)
MAY_HAVE_RUN = "the command may have run"
NO_WORD = "The protocol of sandbox services has no request to {}"


class HttpProvider(SandboxProvider):
    """Opens a session at the service for each sandbox."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        super().__init__(spec, options)
        self.service = Service(
            options["base_url"],
            token=options["token"],
            headers=options["headers"] or {},
            verify_tls=options["verify_tls"],
        )

    def _create(self, manifest: Manifest, owner: Owner) -> HttpSandbox:
        answer = self.service.answer(
            "POST",
            "/sessions",
            seconds=self.options["request_timeout_seconds"],
            limit=SESSION_BYTES,
            content=json_bytes({"manifest": _wire(manifest)}),
            content_type=JSON,
        )
        if not answer.is_success:
            hidden = manifest.environment.plain.values()
            refusal = self.service.refusal(answer, "POST /sessions", hidden)
            if 400 <= answer.status < 500 and answer.status not in NOT_ABOUT_THE_MANIFEST:
                raise SandboxUnsupported(refusal.detail)
            raise refusal
        return self.attach({"session": _session_id(answer)}, manifest)

    def attach(self, handle: Handle, manifest: Manifest) -> HttpSandbox:
        return HttpSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        raise SandboxUnsupported(NO_WORD.format("list sessions"))

    def check(self) -> str:
        """Say whether the service answers and takes the token, by ending a session it never had."""
        path = "/sessions/omniweb-check"
        answer = self.service.answer(
            "DELETE", path, seconds=self.options["request_timeout_seconds"], limit=SESSION_BYTES
        )
        if not answer.is_success and answer.status not in GONE:
            raise self.service.refusal(answer, f"DELETE {path}")
        return f"a service answers at {self.options['base_url']}"


class HttpSandbox(LiveSandbox):
    """One session of the service."""

    def __init__(self, provider: HttpProvider, handle: Handle, manifest: Manifest) -> None:
        self.handle = handle
        self._service = provider.service
        self._options = provider.options
        self._manifest = manifest
        self._path = f"/sessions/{quote(handle['session'], safe='')}"

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        kept = command.max_output_bytes or self._options["max_output_bytes"]
        output = Output(kept, on_output)
        patience = (command.time_limit_seconds or 0) + GRACE_SECONDS
        answer = self._service.ask(
            "POST",
            f"{self._path}/exec",
            watch=Watch(max(self._options["request_timeout_seconds"], patience), cancelled),
            limit=max(RESULT_BYTES, RESULT_BYTES_PER_BYTE * kept),
            content=self._body(command),
            content_type=JSON,
        )
        if isinstance(answer, Silence):
            return self._abandoned(answer, output)
        if answer.status in GONE:
            raise self._lost(answer)
        if not answer.is_success:
            self._refused(answer, "POST", "/exec", hidden=command.env)
        try:
            return _result(answer.fields(), output)
        except ValueError as error:
            raise ProviderError(
                f"The sandbox service answered a command with {error}; {MAY_HAVE_RUN}"
            ) from None

    def _body(self, command: Command) -> bytes:
        home, limit = self._manifest.working_dir, command.time_limit_seconds
        try:
            stdin = None if command.stdin is None else command.stdin.decode()
        except UnicodeDecodeError:
            raise InvalidInput(
                "The http protocol carries stdin as text, and this is not UTF-8; "
                "write it to a file and have the command read that"
            ) from None
        return json_bytes(
            {
                "command": list(command.argv),
                "cwd": posixpath.normpath(posixpath.join(home, command.cwd or "")),
                "env": dict(command.env),
                "timeout_seconds": None if limit is None else math.ceil(limit),
                "stdin": stdin,
            }
        )

    def _abandoned(self, silence: Silence, output: Output) -> CommandResult:
        """End the session of a command that is no longer listened to: it may still be running."""
        is_ended = False
        with suppress(OmniWebError):
            self._end(min(END_SECONDS, self._options["request_timeout_seconds"]))
            is_ended = True
        if silence.stop and is_ended:
            return output.result(EXIT_KILLED, stop=silence.stop, session_lost=True)
        fate = "was ended" if is_ended else "could not be ended"
        raise SandboxLost(f"{silence.why}; the session {fate}, {MAY_HAVE_RUN}")

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        answer = self._file("GET", path, limit=limit)
        if answer.status == 404:
            raise NotFound(f"{path} does not exist")
        self._check_file(answer, "GET")
        if not answer.is_whole:
            raise TooLarge(f"{path} is over {limit} bytes")
        return answer.body

    def write_file(self, path: str, data: bytes) -> None:
        if len(data) > MAX_FILE_BYTES:
            raise TooLarge(f"{path} is {len(data)} bytes; at most {MAX_FILE_BYTES} can be written")
        answer = self._file("PUT", path, limit=SESSION_BYTES, content=data)
        if answer.status == 404:
            raise self._lost(answer)
        self._check_file(answer, "PUT")

    def _file(self, method: str, path: str, **asked: Any) -> Answer:
        full = confined(self._manifest.working_dir, path)
        try:
            query = quote(full, safe="")
        except UnicodeEncodeError:
            raise InvalidInput("The http protocol carries Unicode paths only") from None
        return self._service.answer(
            method,
            f"{self._path}/files?path={query}",
            seconds=self._options["request_timeout_seconds"],
            **asked,
        )

    def _check_file(self, answer: Answer, method: str) -> None:
        if answer.status == 410:
            raise self._lost(answer)
        if not answer.is_success:
            self._refused(answer, method, "/files")

    def list_files(self, path: str = "") -> list[FileEntry]:
        raise SandboxUnsupported(NO_WORD.format("list files; run a command that does"))

    def is_running(self) -> bool:
        raise SandboxUnsupported(NO_WORD.format("ask about a session; a command will tell"))

    def terminate(self) -> None:
        self._end(self._options["request_timeout_seconds"])

    def _end(self, seconds: float) -> None:
        answer = self._service.answer("DELETE", self._path, seconds=seconds, limit=SESSION_BYTES)
        if answer.status not in GONE and not answer.is_success:
            self._refused(answer, "DELETE", "")

    def _lost(self, answer: Answer) -> SandboxLost:
        said = self._service.reason(answer, self._hidden())
        because = f" ({said})" if said else ""
        return SandboxLost(
            f"The sandbox service no longer has the session {self.handle['session']}{because}"
        )

    def _refused(
        self, answer: Answer, method: str, path: str, *, hidden: Mapping[str, str] | None = None
    ) -> NoReturn:
        request = f"{method} {self._path}{path}"
        refusal = self._service.refusal(answer, request, self._hidden(hidden))
        if path == "/files" and answer.status == 413:
            raise TooLarge(refusal.detail)
        if path == "/files" and answer.status in (400, 422):
            raise InvalidInput(refusal.detail)
        raise refusal

    def _hidden(self, more: Mapping[str, str] | None = None) -> list[str]:
        return [*self._manifest.environment.plain.values(), *(more or {}).values()]


def _wire(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest as `POST /sessions` carries it, every key said."""
    network, resources = manifest.network_policy, manifest.resources
    return {
        "image": manifest.image,
        "working_dir": manifest.working_dir,
        "environment": dict(manifest.environment.plain),
        "network": {
            "default": network.default.value,
            "allowed_hosts": list(network.allowed_hosts),
            "denied_hosts": list(network.denied_hosts),
        },
        "resources": {"cpu": resources.cpu, "memory": resources.memory, "gpu": resources.gpu},
    }


def _session_id(answer: Answer) -> str:
    """Return the id of a new session; raises ProviderError for one that cannot be used."""
    try:
        session = answer.fields().get("session_id")
    except ValueError as error:
        raise ProviderError(f"The sandbox service answered POST /sessions with {error}") from None
    if not isinstance(session, str) or not session:
        raise ProviderError("The sandbox service answered POST /sessions without a session_id")
    # It becomes a part of addresses: a dot or two would be another one.
    if len(session) > MAX_SESSION_CHARACTERS or not session.isprintable() or session in (".", ".."):
        raise ProviderError("The sandbox service answered with a session_id that cannot be one")
    return session


def _result(fields: Mapping[str, Any], output: Output) -> CommandResult:
    """Return what a service says a command did; raises ValueError for what cannot be meant."""
    code, timed_out = fields.get("exit_code"), fields.get("timed_out")
    if not isinstance(code, int) or isinstance(code, bool) or not -(2**31) <= code < 2**31:
        raise ValueError("an exit_code that is none")
    if not isinstance(timed_out, bool | None):
        raise ValueError("a timed_out that is neither true nor false")
    texts: dict[Stream, Any] = {"stdout": fields.get("stdout"), "stderr": fields.get("stderr")}
    for stream, text in texts.items():
        if not isinstance(text, str | None):
            raise ValueError(f"a {stream} that is no text")
    for stream, text in texts.items():
        output.feed(stream, (text or "").encode("utf-8", "replace"))
    result = output.result(code, timed_out=bool(timed_out))
    # Not of the protocol, but some services say it, and ours does.
    return replace(
        result,
        stdout_truncated=result.stdout_truncated or fields.get("stdout_truncated") is True,
        stderr_truncated=result.stderr_truncated or fields.get("stderr_truncated") is True,
    )
