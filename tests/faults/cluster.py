"""An installation of many processes, each of which can be killed: web, workers, beat, Redis."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import redis

from tests import environment
from tests.faults.outside import until
from tests.server import ROOT, Server, free_port

CELERY = [sys.executable, "-m", "celery", "-A", "omniweb"]


class Cluster:
    """Two web and two worker processes, one beat, a Redis and a database of their own."""

    def __init__(self, data: Path) -> None:
        self._redis_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._database = f"omniweb_cluster_{self._redis_port}"
        self._postgres(f'CREATE DATABASE "{self._database}"')
        parts = urlsplit(environment.POSTGRES_URL)
        self.server = Server(
            data,
            settings={
                "DATABASE_URL": urlunsplit(parts._replace(path=f"/{self._database}")),
                "REDIS_URL": f"redis://127.0.0.1:{self._redis_port}/0",
                "OMNIWEB_LEASE_SECONDS": "6",
                "OMNIWEB_RECONCILE_SECONDS": "1",
            },
        )
        self._ports = {"web 1": self.server.port, "web 2": free_port()}
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports.values()]
        worker = [*CELERY, "worker", "-P", "threads", "-c", "16", "-n"]
        self._commands = {
            "redis": ["redis-server", "--port", str(self._redis_port), "--save", ""],
            **{
                name: [sys.executable, "manage.py", "serve", "--no-worker", "--port", str(port)]
                for name, port in self._ports.items()
            },
            "worker 1": [*worker, "one@%h"],
            "worker 2": [*worker, "two@%h"],
            "beat": [*CELERY, "beat", "-s", str(data / "beat")],
        }

    def _postgres(self, statement: str) -> None:
        with psycopg.connect(environment.POSTGRES_URL, autocommit=True) as connection:
            connection.execute(cast("Any", statement))

    def start(self) -> None:
        """Start all of it, one after the other where one needs the other."""
        self.begin("redis")
        self.server.environment_switch("local")
        for name in self._commands.keys() - {"redis"}:
            self.begin(name)

    def begin(self, name: str) -> None:
        """Start one process; wait until it answers where it listens."""
        with self.server.log.open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name],
                cwd=self.server.data if name == "redis" else ROOT,
                env=self.server.variables,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        if name == "redis":
            until(self._redis_answers)
        elif name in self._ports:
            until(lambda: self._web_answers(self._ports[name]), 60)

    def _redis_answers(self) -> bool:
        with suppress(redis.RedisError), redis.Redis(port=self._redis_port) as client:
            return bool(client.ping())
        return False

    def _web_answers(self, port: int) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/health/live").is_success
        return False

    def kill(self, name: str) -> None:
        """Kill one process without warning."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def disconnect(self) -> None:
        """Have PostgreSQL end every session of the installation."""
        self._postgres(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{self._database}'"
        )

    def remove(self) -> None:
        """Kill what is left and take away everything it made."""
        for name in list(self._processes):
            self.kill(name)
        time.sleep(0.1)
        self._postgres(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
        self.server.remove()
