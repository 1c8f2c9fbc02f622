"""A server of a command's own, on data that are gone afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import httpx
from django.conf import settings
from django.core.management.base import CommandError

START_SECONDS = 60
STOP_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class OwnServer:
    """A server that runs, and the variables that commands on its data need."""

    url: str
    variables: Mapping[str, str]
    process: subprocess.Popen[bytes]

    def manage(self, *arguments: str) -> int:
        """Run a command on its data to its end; return the exit code."""
        return subprocess.run(_omniweb(*arguments), env=self.variables, check=False).returncode  # noqa: S603 - our own program


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """Give a server with a worker and nobody's data; raises CommandError if it does not start."""
    with tempfile.TemporaryDirectory(prefix="omniweb-demo-") as data:
        port = _port()
        variables = {
            **{name: value for name, value in os.environ.items() if not _is_ours(name)},
            "OMNIWEB_DATA": data,
            "OMNIWEB_PORT": str(port),
        }
        process = subprocess.Popen(_omniweb("serve"), env=variables)  # noqa: S603 - our own program
        try:
            url = f"http://localhost:{port}"
            _await(process, url)
            yield OwnServer(url=url, variables=variables, process=process)
        finally:
            # It may have had a Ctrl-C of its own; a second one would hurry it.
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _omniweb(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "omniweb", *arguments]


def _is_ours(name: str) -> bool:
    """Say whether a variable belongs to the installation that is here already."""
    return name.startswith("OMNIWEB_") or name in ("DATABASE_URL", "REDIS_URL", "EMAIL_URL")


def _port() -> int:
    """Return the usual port, or another one where somebody has it."""
    for port in (settings.PORT, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise CommandError("There is no port to listen on")


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/health/live", timeout=5).is_success:
                return
        time.sleep(0.1)
    raise CommandError("The server of the demo did not start")
