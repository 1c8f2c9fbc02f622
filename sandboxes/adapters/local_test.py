"""Python handlers in place of commands, and files in memory, for tests of one's own agents.

Handlers and files live in this process: a worker of its own has to register them, too.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable
from dataclasses import dataclass

from omniweb.core.errors import InvalidInput, NotFound, SandboxLost, SandboxUnsupported, TooLarge
from sandboxes.manifest import Manifest
from sandboxes.providers.base import (
    EXIT_KILLED,
    EXIT_NOT_FOUND,
    Cancelled,
    Command,
    CommandResult,
    FileEntry,
    FileKind,
    Handle,
    LiveSandbox,
    OnOutput,
    Owned,
    Owner,
    SandboxProvider,
)
from sandboxes.providers.limits import MAX_FILE_BYTES
from sandboxes.providers.paths import confined
from sandboxes.providers.pump import Output, Watch


@dataclass(frozen=True)
class Answer:
    """What a handler says the command did."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


Handler = Callable[[Command], Answer]

_handlers: dict[str, Handler] = {}
_files: dict[str, dict[str, bytes]] = {}
_owners: dict[str, Owner] = {}
_lock = threading.Lock()


def register_test_command(program: str, handler: Handler) -> None:
    """Let a handler answer for a program (`argv[0]`, for a shell line that is `sh`)."""
    with _lock:
        _handlers[program] = handler


def forget_test_commands() -> None:
    """Forget every handler."""
    with _lock:
        _handlers.clear()


class LocalTestProvider(SandboxProvider):
    """Answers commands with the registered handlers, where its options allow that."""

    def _create(self, manifest: Manifest, owner: Owner) -> LocalTestSandbox:
        if not self.options["allow_test_sandbox_runtime"]:
            raise SandboxUnsupported(
                "A test runtime executes nothing until the option allow_test_sandbox_runtime is true"
            )
        with _lock:
            _files[owner.sandbox], _owners[owner.sandbox] = {}, owner
        return LocalTestSandbox(
            {"sandbox": owner.sandbox}, manifest, self.options["max_output_bytes"]
        )

    def attach(self, handle: Handle, manifest: Manifest) -> LocalTestSandbox:
        return LocalTestSandbox(handle, manifest, self.options["max_output_bytes"])

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        with _lock:
            owners = list(_owners.values())
        return [
            Owned(
                handle={"sandbox": owner.sandbox},
                run=owner.run,
                sandbox=owner.sandbox,
                running=True,
            )
            for owner in owners
            if owner.install == install and run in (None, owner.run)
        ]

    def check(self) -> str:
        return f"answers for: {', '.join(sorted(_handlers)) or 'nothing yet'}"


class LocalTestSandbox(LiveSandbox):
    """Handlers and a dictionary of files."""

    def __init__(self, handle: Handle, manifest: Manifest, max_output_bytes: int) -> None:
        self.handle = handle
        self._working_dir = manifest.working_dir
        self._max_output_bytes = max_output_bytes

    @property
    def _stored(self) -> dict[str, bytes]:
        if self.handle["sandbox"] not in _files:
            raise SandboxLost(f"The sandbox {self.handle['sandbox']} no longer exists")
        return _files[self.handle["sandbox"]]

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        _ = self._stored
        output = Output(command.max_output_bytes or self._max_output_bytes, on_output)
        watch = Watch(None, cancelled)
        program = command.argv[0]
        if program not in _handlers:
            output.feed(
                "stderr", f"Command is not registered for local sandbox: {program}\n".encode()
            )
            return output.result(EXIT_NOT_FOUND)
        answer = _handlers[program](command)
        if stop := watch.stop():
            return output.result(EXIT_KILLED, stop=stop)
        output.feed("stdout", answer.stdout.encode())
        output.feed("stderr", answer.stderr.encode())
        return output.result(answer.exit_code, timed_out=answer.timed_out)

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        with _lock:
            data = self._stored.get(confined(self._working_dir, path))
        if data is None:
            raise NotFound(f"{path} does not exist")
        if len(data) > limit:
            raise TooLarge(f"{path} is {len(data)} bytes; at most {limit} can be read")
        return data

    def write_file(self, path: str, data: bytes) -> None:
        if len(data) > MAX_FILE_BYTES:
            raise TooLarge(f"{path} is {len(data)} bytes; at most {MAX_FILE_BYTES} can be written")
        full = confined(self._working_dir, path)
        with _lock:
            if full == self._working_dir or any(
                name.startswith(f"{full}/") for name in self._stored
            ):
                raise InvalidInput(f"{path} is a directory")
            self._stored[full] = bytes(data)

    def list_files(self, path: str = "") -> list[FileEntry]:
        directory = confined(self._working_dir, path).rstrip("/") + "/"
        with _lock:
            below = {
                name: len(data) for name, data in self._stored.items() if name.startswith(directory)
            }
        if not below and directory.rstrip("/") != self._working_dir.rstrip("/"):
            raise NotFound(f"{path} does not exist")
        entries: dict[str, FileEntry] = {}
        for name, size in below.items():
            first, _, rest = name.removeprefix(directory).partition("/")
            full = posixpath.join(directory, first)
            kind: FileKind = "directory" if rest else "file"
            entries[full] = FileEntry(path=full, kind=kind, size=0 if rest else size)
        return [entries[name] for name in sorted(entries)]

    def is_running(self) -> bool:
        return self.handle["sandbox"] in _files

    def terminate(self) -> None:
        with _lock:
            _files.pop(self.handle["sandbox"], None)
            _owners.pop(self.handle["sandbox"], None)
