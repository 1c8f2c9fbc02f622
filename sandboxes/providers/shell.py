"""A sandbox that has sh and common tools, and one way to start a command in it.

What every such provider needs on top of that way: time limits that reach the whole process
tree, and files that stay inside the working directory.
"""

from __future__ import annotations

import posixpath
import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from omniweb.core.errors import (
    CommandLost,
    OmniWebError,
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    TooLarge,
)
from sandboxes.providers import guest
from sandboxes.providers.base import (
    EXIT_KILLED,
    Cancelled,
    Command,
    CommandResult,
    FileEntry,
    LiveSandbox,
    OnOutput,
)
from sandboxes.providers.limits import KIB, LOOK_EVERY_SECONDS, MAX_FILE_BYTES, MIB
from sandboxes.providers.paths import confined
from sandboxes.providers.pump import Output, Stop, Watch

# For what is run inside on our own account: files and killing.
CHORE_SECONDS = 60.0
KILL_SECONDS = 10.0
UNKNOWN_EXIT = -1
# Waited in between, to see whether a sandbox is about to be gone.
DYING_SECONDS = (0.1, 0.3, 0.6, 1.0, 1.0)


class Process(Protocol):
    """A started command: carried by `run` to its end or to the reason to stop it."""

    exit_code: int

    def run(self, watch: Watch) -> Stop | None:
        """Carry its bytes; None when it has ended and `exit_code` is known."""

    def drain(self) -> None:
        """Take what it had still written when it was killed."""


class ShellSandbox(LiveSandbox):
    """A sandbox driven through a shell inside it."""

    # Whether every process in it is a command's, so that none of the image's own is ever killed.
    only_commands = True

    def __init__(self, name: str, working_dir: str, max_output_bytes: int) -> None:
        self._name = name
        self._working_dir = working_dir
        self._max_output_bytes = max_output_bytes
        self._files = guest.Files(working_dir)

    @abstractmethod
    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> AbstractContextManager[Process]:
        """Start argv as the sandbox's user, with the manifest's environment below `env`."""

    def lost(self) -> SandboxLost:
        """Return the error that says this sandbox is gone."""
        return SandboxLost(f"The sandbox {self._name} no longer exists; the command did not finish")

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        output = Output(command.max_output_bytes or self._max_output_bytes, on_output)
        watch = Watch(command.time_limit_seconds, cancelled)
        mark = secrets.token_hex(16)
        argv = guest.run(posixpath.join(self._working_dir, command.cwd or "."), command.argv)
        env = {**command.env, guest.MARK: mark}
        starting = self.start(argv, output, env=env, stdin=command.stdin)
        try:
            with starting as process:
                try:
                    stop = process.run(watch)
                except BaseException:
                    # Its output can no longer be taken, or the worker is stopping.
                    output.mute()
                    self._killed(mark, process)
                    raise
                if stop is None:
                    return output.result(self._exit_code(process))
                killed = self._killed(mark, process)
        except ProviderUnavailable as error:
            raise CommandLost(error.detail) from error
        if not killed:
            # Nothing less would stop what is still running in there.
            self.terminate()
        return output.result(EXIT_KILLED, stop=stop, session_lost=not killed)

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        full = confined(self._working_dir, path)
        data = self.chore(self._files.read(full, limit), about=path, limit=limit)
        if len(data) > limit:
            raise TooLarge(f"{path} grew past {limit} bytes while it was read")
        return data

    def write_file(self, path: str, data: bytes) -> None:
        if len(data) > MAX_FILE_BYTES:
            raise TooLarge(f"{path} is {len(data)} bytes; at most {MAX_FILE_BYTES} can be written")
        full = confined(self._working_dir, path)
        self.chore(self._files.write(full, len(data)), about=path, stdin=data)

    def list_files(self, path: str = "") -> list[FileEntry]:
        full = confined(self._working_dir, path)
        for _ in range(3):
            printed = self.chore(self._files.list(full), about=path or full, limit=16 * MIB)
            with suppress(ValueError):
                return guest.entries(full, printed)
        raise ProviderError(f"{path or full} changes too fast to be listed")

    def chore(
        self, argv: Sequence[str], *, about: str, stdin: bytes | None = None, limit: int = 4 * KIB
    ) -> bytes:
        """Return what one of our own commands prints, up to one byte over the limit.

        Raises what `guest.failure` makes of its exit code.
        """
        kept = {"stdout": bytearray(), "stderr": bytearray()}
        output = Output(limit + 1, lambda stream, data: kept[stream].extend(data))
        code = self.ran(argv, output, stdin=stdin)
        if code:
            raise guest.failure(code, about, kept["stderr"].decode(errors="replace"))
        return bytes(kept["stdout"])

    def ran(self, argv: Sequence[str], output: Output, *, stdin: bytes | None = None) -> int:
        """Run one of our own commands to its end and return its exit code."""
        with self.start(argv, output, env={}, stdin=stdin) as process:
            if process.run(Watch(CHORE_SECONDS, _never)):
                raise ProviderError(f"The sandbox {self._name} does not answer")
        return self._exit_code(process)

    def _killed(self, mark: str, process: Process) -> bool:
        """Kill what carries a mark and take what it had still written; say whether it is gone."""
        # An engine tells of no end in a sandbox while output of it is not taken.
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(self._kill, mark)
            while not wait([killing], LOOK_EVERY_SECONDS).done:
                process.drain()
        process.drain()
        return killing.result()

    def _kill(self, mark: str) -> bool:
        """Kill what carries a mark; say whether it is known to be gone."""
        with suppress(OmniWebError):
            killing = guest.kill(mark, orphans=self.only_commands)
            return self._succeeds(killing, KILL_SECONDS)
        return False

    def _succeeds(self, argv: Sequence[str], seconds: float) -> bool:
        output = Output(0, lambda stream, data: None)
        with self.start(argv, output, env={}, stdin=None) as process:
            return process.run(Watch(seconds, _never)) is None and process.exit_code == 0

    def _exit_code(self, process: Process) -> int:
        code = process.exit_code
        # A killed command looks the same as one whose sandbox was ended under it.
        if code in (UNKNOWN_EXIT, EXIT_KILLED) and not self._alive():
            raise self.lost()
        return code

    def _alive(self) -> bool:
        """Say whether the sandbox outlived a command that was killed.

        One that is being ended may be called running for a moment more, so only a new command
        that works is proof; and without proof it counts as gone once it is no longer running.
        """
        for pause in DYING_SECONDS:
            with suppress(OmniWebError):
                if self._succeeds(guest.NOTHING, KILL_SECONDS):
                    return True
            if not self.is_running():
                return False
            time.sleep(pause)
        return True


def _never() -> bool:
    return False
