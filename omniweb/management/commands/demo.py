"""`manage.py demo`: a scripted agent, so that a newcomer sees what there is to decide."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from omniweb.accounts.auth import actor_for_user
from omniweb.core.errors import OmniWebError
from omniweb.management.own_server import own_server
from omniweb.management.stand_ins import stand_in
from omniweb.web.demo import demo_run
from omniweb.web.services import installation_prepare
from sandboxes.providers.registry import provider_spec, provider_specs


class Command(BaseCommand):
    """Play the demo in the foreground, against a server that runs or one of its own."""

    help = "Start the demo agent; a server must run (make serve). It waits for your decisions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the server's address, and a hosted provider."""
        parser.add_argument(
            "--url", default="", help=f"where the server listens, {settings.PUBLIC_URL} if not set"
        )
        parser.add_argument(
            "--provider",
            default="",
            choices=[spec.name for spec in provider_specs() if spec.credentials],
            help="show a hosted provider without an account: on a stand-in of its service, with a "
            "server of its own, both gone afterwards; with --url, on that server and its account",
        )

    def handle(self, *args: Any, url: str, provider: str, **options: Any) -> None:
        """Say what happens, and where to decide."""
        try:
            if provider and not url:
                self._stand_in(provider)
            else:
                self._play(url or settings.PUBLIC_URL, provider)
        except OmniWebError as error:
            raise CommandError(error.detail) from None

    def _play(self, url: str, provider: str) -> None:
        actor = actor_for_user(installation_prepare())
        if actor is None:
            raise CommandError("There is no admin to answer for the demo agent")
        self.stdout.write(f"Two requests will wait for you at {url}/inbox")
        try:
            demo_run(actor=actor, url=url, tell=self._tell, provider=provider)
        except httpx.ConnectError:
            raise CommandError(f"Nothing answers at {url}; start it with: make serve") from None
        except httpx.HTTPError as error:
            raise CommandError(f"The server refused: {error}") from None

    def _stand_in(self, provider: str) -> None:
        """Play it on a provider's stand-in until Ctrl-C, which leaves nothing behind."""
        spec = provider_spec(provider)
        with suppress(KeyboardInterrupt), stand_in(spec):
            # Whoever ends this has all of it ended; a shell starts what is in its background deaf to
            # Ctrl-C, and nothing else ends a demo.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler)
            with own_server() as server:
                self._tell(
                    f"This is not {spec.label}: a stand-in on this machine answers {spec.label}'s "
                    "own SDK, and runs the commands here, cut off by bubblewrap. Sign in by the "
                    "link above."
                )
                code = server.manage("demo", "--provider", provider, "--url", server.url)
                how = "The demo is over" if code == 0 else "The demo failed"
                self._tell(f"{how}. Look at what is recorded; Ctrl-C ends and removes all of it.")
                server.process.wait()
        self._tell(f"The server, the stand-in for {spec.label} and all they had are gone.")

    def _tell(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
