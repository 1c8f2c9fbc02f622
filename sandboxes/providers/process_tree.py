"""Finding and killing all that a command started on this machine (Linux).

Every command carries a mark in its environment that its children inherit, so they are found
even after they have left its process group, its session and its parent. A child that was given
an empty environment is found as a descendant or by its session; one that has dropped all
three is not found, which is one more reason why this machine is not called a sandbox.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "OMNIWEB_COMMAND"
_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A live process: its parent, its session, when it started, and the mark it carries."""

    pid: int
    parent: int
    session: int
    started: str
    mark: str


def marked(prefix: str) -> list[Process]:
    """Return the live processes whose mark starts with a prefix."""
    return [process for process in _processes() if process.mark.startswith(prefix)]


def kill_marked(prefix: str, *, leader: int | None = None, seconds: float = 5.0) -> bool:
    """Kill what carries a mark, and `leader`, its session and its descendants; say whether all is gone."""
    if leader is not None and not _PROC.is_dir():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while victims := _stopped(prefix, leader):
        if time.monotonic() > deadline:
            return False
        for victim in victims:
            _send(victim, signal.SIGKILL)
        time.sleep(0.01)
    return True


def _processes() -> Iterator[Process]:
    for entry in _PROC.glob("[0-9]*"):
        process = _process(int(entry.name))
        if process is not None:
            yield process


def _process(pid: int) -> Process | None:
    """Return a process, or None when it is gone, dead but not reaped, or hidden from this user."""
    entry = _PROC / str(pid)
    try:
        # The program's name stands in parentheses and may itself contain some.
        stat = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if stat[0] in "ZX":
            return None
        return Process(pid, int(stat[1]), int(stat[3]), stat[19], _mark(entry))
    except OSError:
        return None


def _mark(entry: Path) -> str:
    with suppress(OSError):
        for variable in (entry / "environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == MARK.encode():
                return value.decode(errors="replace")
    return ""


def _stopped(prefix: str, leader: int | None) -> list[Process]:
    """Return all that has to go, stopped first: a child whose parent dies too early is no longer one."""
    stopped: dict[int, Process] = {}
    while new := [victim for victim in _victims(prefix, leader) if victim.pid not in stopped]:
        for victim in new:
            _send(victim, signal.SIGSTOP)
            stopped[victim.pid] = victim
    return list(stopped.values())


def _victims(prefix: str, leader: int | None) -> list[Process]:
    alive = list(_processes())
    found = {
        process.pid
        for process in alive
        if process.mark.startswith(prefix) or leader in (process.pid, process.session)
    }
    while more := {process.pid for process in alive if process.parent in found} - found:
        found |= more
    return [process for process in alive if process.pid in found and process.pid != os.getpid()]


def _send(victim: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        # A descriptor names one process for good, even if its number is given to another.
        descriptor = os.pidfd_open(victim.pid)
        try:
            now = _process(victim.pid)
            if now is not None and now.started == victim.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
