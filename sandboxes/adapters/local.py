"""Commands as processes of this machine, with nothing in between. Not a sandbox, and it says so."""

from __future__ import annotations

import os
import secrets
import subprocess
from contextlib import suppress
from pathlib import Path

from omniweb.core.errors import SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.providers import child, process_tree
from sandboxes.providers.base import (
    EXIT_CANNOT_RUN,
    EXIT_KILLED,
    EXIT_NOT_FOUND,
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
)
from sandboxes.providers.folder import Folder
from sandboxes.providers.limits import MAX_FILE_BYTES
from sandboxes.providers.pump import Output, Watch

# What a command may see of the server's own environment, unless an option names more.
PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ")


class LocalProvider(SandboxProvider):
    """Runs commands as the server's own user in a directory of this machine."""

    def _create(self, manifest: Manifest, owner: Owner) -> LocalSandbox:
        folder = Path(manifest.working_dir)
        if self.options["create_working_dir"]:
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
        if not folder.is_dir():
            raise SandboxUnsupported(
                f"The local sandbox's working directory {folder} does not exist; create it, set "
                "sandbox_manifest.working_dir to one that does, or set the option "
                "create_working_dir=true"
            )
        mark = f"{owner.install}/{owner.run}/{owner.sandbox}/"
        return LocalSandbox(self, {"mark": mark}, manifest)

    def attach(self, handle: Handle, manifest: Manifest) -> LocalSandbox:
        return LocalSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        """Return the runs that still have processes on this machine."""
        prefix = f"{install}/{run}/" if run else f"{install}/"
        marks = {process.mark.rpartition("/")[0] for process in process_tree.marked(prefix)}
        return [
            Owned(
                handle={"mark": f"{mark}/"},
                run=mark.split("/")[1],
                sandbox=mark.split("/")[2],
                running=True,
            )
            for mark in sorted(marks)
            if mark.count("/") == 2
        ]

    def check(self) -> str:
        return "runs on this machine, not isolated"

    def environment(self, manifest: Manifest, command: Command, mark: str) -> dict[str, str]:
        """Return all that a command sees: named host variables, the manifest's, its own, its mark."""
        if self.options["inherit_environment"]:
            host = dict(os.environ)
        else:
            names = (*PASSED, *self.options["environment_passthrough"])
            host = {name: os.environ[name] for name in names if name in os.environ}
        return {**host, **manifest.environment.plain, **command.env, process_tree.MARK: mark}


class LocalSandbox(LiveSandbox):
    """A directory of this machine and the processes started for one run."""

    def __init__(self, provider: LocalProvider, handle: Handle, manifest: Manifest) -> None:
        self.handle = handle
        self._provider = provider
        self._manifest = manifest
        self._folder = Folder(manifest.working_dir)

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        output = Output(
            command.max_output_bytes or self._provider.options["max_output_bytes"], on_output
        )
        watch = Watch(command.time_limit_seconds, cancelled)
        mark = self.handle["mark"] + secrets.token_hex(8)
        cwd = Path(self._manifest.working_dir, command.cwd or "")
        try:
            process = self._start(command, cwd, mark)
        except OSError as error:
            code, message = _why_not_started(error, command.argv[0], cwd)
            output.feed("stderr", f"{message}\n".encode())
            return output.result(code)
        try:
            pump = child.pump_of(process, command.stdin, output)
            if stop := pump.run(watch):
                process_tree.kill_marked(mark, leader=process.pid)
                pump.drain()
                return output.result(EXIT_KILLED, stop=stop)
        except BaseException:
            # Its output can no longer be taken, or the worker is stopping.
            process_tree.kill_marked(mark, leader=process.pid)
            raise
        finally:
            child.close(process)
        code = process.returncode
        return output.result(128 - code if code < 0 else code)

    def _start(self, command: Command, cwd: Path, mark: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 -- running what the policy let through is its purpose
            command.argv,
            cwd=cwd,
            env=self._provider.environment(self._manifest, command, mark),
            stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        return self._folder.read(path, limit)

    def write_file(self, path: str, data: bytes) -> None:
        self._folder.write(path, data)

    def list_files(self, path: str = "") -> list[FileEntry]:
        return self._folder.list(path)

    def is_running(self) -> bool:
        return Path(self._manifest.working_dir).is_dir()

    def terminate(self) -> None:
        """End every process of the run; the directory and what changed in it stay."""
        process_tree.kill_marked(self.handle["mark"])


def _why_not_started(error: OSError, program: str, cwd: Path) -> tuple[int, str]:
    """Return the exit code and sentence a shell would give for a command that did not start."""
    if not cwd.is_dir():
        return EXIT_NOT_FOUND, f"Working directory {cwd} does not exist"
    if isinstance(error, FileNotFoundError):
        return EXIT_NOT_FOUND, f"{program}: not found"
    return EXIT_CANNOT_RUN, f"{program}: {os.strerror(error.errno or 0)}"
