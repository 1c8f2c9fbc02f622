"""`manage.py serve`: the whole product in one command."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from omniweb.accounts.services import link_create
from omniweb.core.jobs import enqueue
from omniweb.core.waiting import waiting_end
from omniweb.web.services import installation_prepare
from sandboxes.services.reconcile import reconcile


class Command(BaseCommand):
    """Migrate, prepare, start the worker, serve, and stop it all on Ctrl-C."""

    help = "Serve the pages and the API, with a worker of its own unless --no-worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Port and host default to the settings."""
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument("--host", default=settings.HOST)
        parser.add_argument(
            "--no-worker", action="store_true", help="leave the tasks to separate worker processes"
        )

    def handle(self, *args: Any, port: int, host: str, no_worker: bool, **options: Any) -> None:
        """Serve until told to stop."""
        if no_worker and not settings.REDIS_URL:
            raise CommandError("--no-worker needs REDIS_URL: without it, workers hear nothing")
        if f"http://localhost:{port}" != settings.PUBLIC_URL == f"http://localhost:{settings.PORT}":
            raise CommandError(
                "Links would lead to another port: set OMNIWEB_PORT instead of --port, or "
                "OMNIWEB_PUBLIC_URL to the address that people and agents open"
            )
        _check_port(host, port)
        admin = installation_prepare()
        path = reverse("sign_in_link", args=[link_create(user=admin)])
        self.greeting = (
            f"\nOmniWeb listens on {settings.PUBLIC_URL}\n"
            f"Sign in as {admin}, once: {settings.PUBLIC_URL}{path}\n"
        )
        with _worker(no_worker):
            self._serve(host, port)
        self.stdout.write("OmniWeb has stopped.")

    def _serve(self, host: str, port: int) -> None:
        command = self

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                command.stdout.write(command.greeting)
                command.stdout.flush()

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                waiting_end()
                await super().shutdown(sockets)

        # uvicorn raises the signal it caught once more when it is done; without handlers of our
        # own that would end the process before the worker has stopped.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        config = uvicorn.Config(
            "omniweb.asgi:application",
            host=host,
            port=port,
            lifespan="off",
            # Its lines go the way of all others, which no text can forge.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.HTTPS,
            timeout_graceful_shutdown=3,
            ws_ping_interval=20,
        )
        Server(config).run()


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} cannot be used ({error.strerror}); choose another: make serve PORT=…"
            ) from None


@contextmanager
def _worker(no_worker: bool) -> Iterator[None]:
    """Run the worker that fits: none, a child process beside Redis, or threads of this process."""
    if no_worker:
        yield
    elif settings.REDIS_URL:
        schedule = str(settings.DATA_DIR / "beat")
        child = subprocess.Popen(  # noqa: S603 - our own program with fixed arguments
            [sys.executable, "-m", "celery", "-A", "omniweb", "worker", "-B", "-s", schedule]
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait(30)
    else:
        yield from _embedded()


def _embedded() -> Iterator[None]:
    # Celery's worker is only loaded in the mode that runs it here.
    from omniweb.worker import EmbeddedWorker

    worker = EmbeddedWorker(settings.WORKER_THREADS)
    # There is no other process: whatever was claimed, its worker is gone.
    reconcile(workers_are_gone=True)
    worker.start()
    enqueue("sandboxes.sandboxes_compare")
    try:
        yield
    finally:
        worker.stop()
