"""A process of this machine, as adapters that start one need it: its bytes carried, its ends closed."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from functools import partial
from typing import IO

from sandboxes.providers.base import Stream
from sandboxes.providers.pump import Inlet, Outlet, Output, Pump, read_pipe


def pump_of(process: subprocess.Popen[bytes], stdin: bytes | None, output: Output) -> Pump:
    """Return what carries a process's bytes; it was started with pipes, and without buffers."""
    inlets, outlet = [], None
    pipes: tuple[tuple[Stream, IO[bytes] | None], ...] = (
        ("stdout", process.stdout),
        ("stderr", process.stderr),
    )
    for stream, pipe in pipes:
        number = _number(pipe)
        inlets.append(Inlet(number, read_pipe(number), partial(output.feed, stream)))
    if process.stdin is not None:
        number = _number(process.stdin)
        os.set_blocking(number, False)
        outlet = Outlet(
            number, partial(os.write, number), process.stdin.close, memoryview(stdin or b"")
        )
    return Pump(inlets, outlet, ended=lambda: process.poll() is not None)


def _number(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


def close(process: subprocess.Popen[bytes]) -> None:
    """Close what is still open of a process that is over, and reap it."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
