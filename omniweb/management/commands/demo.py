"""`manage.py demo`: a scripted agent, so that a newcomer sees what there is to decide."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from omniweb.accounts.auth import actor_for_user
from omniweb.core.errors import OmniWebError
from omniweb.web.demo import demo_run
from omniweb.web.services import installation_prepare


class Command(BaseCommand):
    """Play the demo in the foreground against a server that runs."""

    help = "Start the demo agent; a server must run (make serve). It waits for your decisions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the server's address."""
        parser.add_argument("--url", default=settings.PUBLIC_URL)

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        """Say what happens, and where to decide."""
        actor = actor_for_user(installation_prepare())
        if actor is None:
            raise CommandError("There is no admin to answer for the demo agent")
        self.stdout.write(f"Two requests will wait for you at {url}/inbox")
        try:
            demo_run(actor=actor, url=url, tell=self.stdout.write)
        except httpx.ConnectError:
            raise CommandError(f"Nothing answers at {url}; start it with: make serve") from None
        except httpx.HTTPError as error:
            raise CommandError(f"The server refused: {error}") from None
        except OmniWebError as error:
            raise CommandError(error.detail) from None
