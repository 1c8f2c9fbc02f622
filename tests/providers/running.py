"""Running commands in a sandbox and looking at what came out."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandboxes.providers.base import Command, CommandResult, LiveSandbox, Owner
from tests.providers import unique


@dataclass(frozen=True)
class Ran:
    """A finished command and the output that was kept."""

    result: CommandResult
    stdout: bytes
    stderr: bytes

    @property
    def code(self) -> int:
        """Return its exit code."""
        return self.result.exit_code

    @property
    def text(self) -> str:
        """Return stdout as text, without the last line break."""
        return self.stdout.decode().rstrip("\n")


def run(
    sandbox: LiveSandbox, *argv: str, cancel: threading.Event | None = None, **options: Any
) -> Ran:
    """Run one command to its end."""
    kept: Mapping[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    result = sandbox.execute(
        Command(argv=argv, **options),
        on_output=lambda stream, data: kept[stream].extend(data),
        cancelled=cancel.is_set if cancel else lambda: False,
    )
    return Ran(result, bytes(kept["stdout"]), bytes(kept["stderr"]))


def sh(sandbox: LiveSandbox, line: str, **options: Any) -> Ran:
    """Run one shell line to its end."""
    return run(sandbox, "sh", "-c", line, **options)


def somebody(run: str | None = None, *, install: str | None = None) -> Owner:
    """Return an owner that nothing else on this machine has."""
    return Owner(install=install or unique("test"), run=run or unique("run"), sandbox=unique("sbx"))
