"""`manage.py doctor`: what works here, what does not, and what to do about it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from omniweb.core.errors import OmniWebError
from sandboxes.models import Environment
from sandboxes.providers.registry import open_provider, provider_specs
from sandboxes.providers.spec import ProviderSpec

# What OmniWeb cannot do without; the rest is told but does not fail the command.
NEEDED = frozenset({"database", "broker"})


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing looked at: whether it works, what was seen, and the fix."""

    name: str
    ok: bool
    seen: str
    fix: str = ""


class Command(BaseCommand):
    """Look at everything OmniWeb may use; exit 1 when something it needs is missing."""

    help = "Say what works here: database, broker, Docker, gVisor, and each provider."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Findings as JSON for scripts."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print each finding with its fix."""
        findings = list(_findings())
        if options["json"]:
            self.stdout.write(json.dumps({"findings": [asdict(item) for item in findings]}))
        else:
            for item in findings:
                mark = "ok     " if item.ok else "missing"
                self.stdout.write(f"{mark}  {item.name:<12} {item.seen}")
                if item.fix:
                    self.stdout.write(f"{'':<22}{item.fix}")
        if any(not item.ok and item.name in NEEDED for item in findings):
            raise CommandError("OmniWeb cannot run like this", returncode=1)


def _findings() -> Iterator[Finding]:
    yield _database()
    yield _broker()
    yield _gvisor()
    for spec in provider_specs():
        if any(option.required for option in spec.options):
            yield from _environments(spec)
        else:
            yield _provider(spec, spec.name, {})


def _environments(spec: ProviderSpec) -> Iterator[Finding]:
    """A provider that needs options is looked at with those of the environments that use it."""
    seen = "needs options; looked at in each environment that uses it"
    yield Finding(name=spec.name, ok=True, seen=seen)
    used = Environment.objects.filter(provider=spec.name, is_enabled=True).order_by("id")
    with suppress(DatabaseError):  # told already
        for environment in used:
            yield _provider(spec, f"{spec.name}: {environment.name}", environment.options)


def _database() -> Finding:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        fix = "Start the database, or correct DATABASE_URL."
        return Finding(name="database", ok=False, seen=str(error).strip(), fix=fix)
    return Finding(name="database", ok=True, seen=connection.vendor)


def _broker() -> Finding:
    if not settings.REDIS_URL:
        return Finding(name="broker", ok=True, seen="in this process (no REDIS_URL)")
    try:
        with current_app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, timeout=3)
    except Exception as error:  # noqa: BLE001 - every broker has exceptions of its own
        fix = "Start Redis, or correct REDIS_URL."
        return Finding(name="broker", ok=False, seen=str(error), fix=fix)
    return Finding(name="broker", ok=True, seen="Redis")


def _checked(name: str, check: Callable[[], str], fix: str) -> Finding:
    try:
        return Finding(name=name, ok=True, seen=check())
    except OmniWebError as error:
        return Finding(name=name, ok=False, seen=error.detail, fix=fix)


def _gvisor() -> Finding:
    fix = (
        "Install runsc, register it with the Docker daemon, then set the docker environment's "
        'option "runtime" to "runsc".'
    )
    return _checked("gvisor", lambda: open_provider("docker", {"runtime": "runsc"}).check(), fix)


def _provider(spec: ProviderSpec, name: str, options: Mapping[str, Any]) -> Finding:
    fixes = {"docker": "Start a Docker Engine, or set DOCKER_HOST to one."}
    finding = _checked(
        name,
        lambda: open_provider(spec.name, options).check(),
        fixes.get(spec.name, ""),
    )
    if finding.ok or not spec.credentials:
        return finding
    names = ", ".join(spec.credentials)
    return Finding(name=name, ok=False, seen=finding.seen, fix=f"It will need {names}.")
