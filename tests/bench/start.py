"""From nothing to the first page.

`manage.py serve` from the start of the process until it has answered the sign-in page, in a fresh
data folder (which it has to migrate) and again in the same one; and the memory it then has in RAM,
its worker included. Beside it, a site of one view that only has Django and uvicorn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from tests.bench.clock import alternate
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.machine import resident_megabytes
from tests.server import ROOT, START_SECONDS, Server, free_port

ROUNDS = 7
BARE = "Django and uvicorn alone"


class Started(NamedTuple):
    """How long a process took to its first page, and the megabytes it then had in RAM."""

    seconds: float
    megabytes: float


def started(command: Sequence[str], variables: Mapping[str, str], url: str) -> Started:
    """Start a server, get its first page, stop it."""
    # Compiled modules are part of an installation.
    environment = {k: v for k, v in variables.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            _first_page(url, begin + START_SECONDS)
            return Started(time.perf_counter() - begin, resident_megabytes(process.pid))
        finally:
            # Nothing in it is worth a clean end.
            process.kill()


def _first_page(url: str, deadline: float) -> None:
    with httpx.Client(base_url=url, follow_redirects=True, timeout=10) as browser:
        while time.perf_counter() < deadline:
            with suppress(httpx.TransportError):
                browser.get("/").raise_for_status()
                return
            time.sleep(0.01)
    raise TimeoutError(f"{url} did not answer within {START_SECONDS} s")


class Starts:
    """Measures starts of one kind, and keeps what memory each took."""

    def __init__(self, start: Callable[[], Started]) -> None:
        self._start = start
        self.megabytes: list[float] = []

    def __call__(self) -> float:
        """Start once."""
        seconds, megabytes = self._start()
        self.megabytes.append(megabytes)
        return seconds


def _fresh() -> Started:
    with tempfile.TemporaryDirectory(prefix="omniweb-bench-") as folder:
        return _serve(Server(Path(folder) / "data"))


def _serve(server: Server) -> Started:
    return started(["manage.py", "serve"], server.variables, server.url)


def _alone() -> Started:
    port = free_port()
    command = ["-m", "tests.bench.bare_site", str(port)]
    return started(command, os.environ, f"http://127.0.0.1:{port}")


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure both starts, and the memory at the end of each."""
    with tempfile.TemporaryDirectory(prefix="omniweb-bench-") as folder:
        server = Server(Path(folder) / "data")
        kinds = [Starts(_fresh), Starts(lambda: _serve(server)), Starts(_alone)]
        *ours, bare = alternate(scale.rounds(ROUNDS, 2), *kinds)
    for name, samples in zip(("first", "next"), ours, strict=True):
        aim = at_most(2000, "ms")
        yield timing(f"{name} start to first page", samples, BARE, bare, aim=aim)
    for name, kind in zip(("first", "next"), kinds[:2], strict=True):
        yield Figure(
            what=f"memory after the {name} start",
            value=median(kind.megabytes),
            unit="MB",
            reference=BARE,
            reference_value=median(kinds[2].megabytes),
            aim=at_most(120, "MB"),
        )
