"""What the figures were taken on, and what of it is missing."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests import environment
from tests.bench.figure import Missing
from tests.machine import MISSING
from tests.server import ROOT

# Starts PostgreSQL if it is installed, says where, and stops it when nobody reads any more.
POSTGRES = """
source .ci/services.sh
trap services_stop EXIT
postgres_start && echo "$OMNIWEB_TEST_POSTGRES_URL" && read -r
"""


# Above this load average figures are not worth keeping.
BUSY = 1.5


def need(name: str) -> None:
    """Raise Missing with the reason when a marker's thing is not there (`tests.machine`)."""
    if missing := MISSING[name]():
        raise Missing(missing)


@contextmanager
def postgres() -> Iterator[str]:
    """Give the URL of a PostgreSQL server, one of our own where none was named."""
    if environment.POSTGRES_URL:
        need("postgres")
        yield environment.POSTGRES_URL
        return
    with subprocess.Popen(
        ["bash", "-c", POSTGRES],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        url = service.stdout.readline().strip() if service.stdout else ""
        if not url:
            raise Missing("PostgreSQL is not installed")
        yield url


def postgres_version(url: str) -> str:
    """Return a server's version."""
    with psycopg.connect(url) as connection:
        return f"PostgreSQL {connection.info.server_version // 10000}"


def resident_megabytes(pid: int) -> float:
    """Return the memory a process has in RAM."""
    shown = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True
    )
    return int(shown.stdout) * 1024 / 1e6


def load() -> float:
    """Return how many processes have wanted a core lately."""
    return os.getloadavg()[0]


def described() -> dict[str, str]:
    """Return the machine's size and what runs on it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "Cores": f"{os.cpu_count()} ({_processor()})",
        "Memory": f"{total / 1e9:.0f} GB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Database": f"SQLite {sqlite3.sqlite_version}, WAL",
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
