"""The protocol's bodies. Keys we do not know are ignored: clients of other versions send more."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field, field_validator

from omniweb.core.schemas import Bytes, Json, Text
from sandboxes.providers.base import Command


class SessionIn(Schema):
    """What the sandbox of a new session shall be."""

    manifest: Json = Field(default_factory=dict)


class SessionOut(Schema):
    """A session: one run."""

    session_id: str


class ExecIn(Schema):
    """A command: the words of it, not necessarily a shell's."""

    command: list[Bytes]
    cwd: Text | None = None
    env: dict[Bytes, Bytes] = Field(default_factory=dict)
    timeout_seconds: float | None = None
    stdin: Bytes | None = None

    @field_validator("env", mode="before")
    @classmethod
    def _no_env(cls, value: Any) -> Any:
        return {} if value is None else value

    def to_command(self) -> Command:
        """Return the command; raises InvalidInput when no system could start it."""
        return Command(
            argv=tuple(self.command),
            cwd=self.cwd,
            env=self.env,
            stdin=None if self.stdin is None else self.stdin.encode(),
            time_limit_seconds=self.timeout_seconds,
        )


class ExecOut(Schema):
    """How a command ended. What follows `timed_out` is ours; clients of the protocol ignore it."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    execution_id: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    execution_surface: str = Field(
        default="", description="`host` where nothing isolates the command, else `sandbox`"
    )
