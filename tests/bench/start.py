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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from tests.bench.clock import Measure, alternate
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
            process.terminate()


def _first_page(url: str, deadline: float) -> None:
    with httpx.Client(base_url=url, follow_redirects=True, timeout=10) as browser:
        while time.perf_counter() < deadline:
            with suppress(httpx.TransportError):
                browser.get("/").raise_for_status()
                return
            time.sleep(0.01)
    raise TimeoutError(f"{url} did not answer within {START_SECONDS} s")


class Memories:
    """Measures starts, and keeps what memory each took."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.bare: list[float] = []

    def fresh(self) -> float:
        """Start in a folder that is new."""
        with tempfile.TemporaryDirectory(prefix="omniweb-bench-") as folder:
            return self._serve(Server(Path(folder) / "data"))

    def again(self, server: Server) -> Measure:
        """Start in the folder of a server that has run before."""
        return lambda: self._serve(server)

    def _serve(self, server: Server) -> float:
        seconds, megabytes = started(["manage.py", "serve"], server.variables, server.url)
        self.ours.append(megabytes)
        return seconds

    def alone(self) -> float:
        """Start the site that is nothing but Django."""
        port = free_port()
        command = ["-m", "tests.bench.bare_site", str(port)]
        seconds, megabytes = started(command, os.environ, f"http://127.0.0.1:{port}")
        self.bare.append(megabytes)
        return seconds


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure both starts, and the memory at the end of each."""
    memories = Memories()
    with tempfile.TemporaryDirectory(prefix="omniweb-bench-") as folder:
        server = Server(Path(folder) / "data")
        fresh, again, bare = alternate(
            scale.rounds(ROUNDS, 2), memories.fresh, memories.again(server), memories.alone
        )
    aim = at_most(2000, "ms")
    yield timing("first start to first page", fresh, BARE, bare, aim=aim)
    yield timing("next start to first page", again, BARE, bare, aim=aim)
    yield Figure(
        what="memory after the first page",
        value=median(memories.ours),
        unit="MB",
        reference=BARE,
        reference_value=median(memories.bare),
        aim=at_most(120, "MB"),
    )
