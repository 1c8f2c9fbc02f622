"""`manage.py doctor`: what works here, what does not, and what to do about it."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from omniweb.core.errors import OmniWebError
from omniweb.management.conformance import owner, subject
from sandboxes.models import Environment
from sandboxes.providers import conformance
from sandboxes.providers.conformance import NO_SANDBOX, CheckResult, Outcome
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
    """Look at everything OmniWeb may use; exit 1 when something it needs is missing.

    With a provider, run the conformance kit on it; exit 1 when a check fails.
    """

    help = (
        "Say what works here: database, broker, Docker, gVisor, and each provider. "
        "With --provider, run every check of the conformance kit on that one."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Findings as JSON for scripts; a provider, and how to reach it."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--provider", metavar="NAME", help="run the conformance kit on it")
        parser.add_argument(
            "--environment", metavar="NAME", default="", help="with the options and manifest of it"
        )
        parser.add_argument(
            "--standin",
            action="store_true",
            help="on a stand-in for the vendor's service, on this machine",
        )
        parser.add_argument(
            "--check", action="append", metavar="NAME", help="make only this check; may be repeated"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print each finding with its fix, or each check with what came of it."""
        if options["provider"]:
            self._check(options)
            return
        if options["environment"] or options["standin"] or options["check"]:
            raise CommandError("--environment, --standin and --check go with --provider")
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

    def _check(self, options: Mapping[str, Any]) -> None:
        """Run the kit; each check is printed when it is made, as JSON all of them at the end."""
        provider, environment = options["provider"], options["environment"]
        told = None if options["json"] else self._print
        try:
            with subject(provider, environment, on_stand_in=options["standin"]) as found:
                results = list(
                    conformance.run(found.provider, found.manifest, owner(), options["check"], told)
                )
        except OmniWebError as error:
            raise CommandError(error.detail, returncode=1) from None
        counts = Counter(result.outcome.value for result in results)
        if options["json"]:
            checks = [asdict(result) for result in results]
            facts = {"provider": provider, "environment": environment, "counts": counts}
            self.stdout.write(json.dumps({**facts, "checks": checks}))
        else:
            words = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
            self.stdout.write(f"{provider}: {words}")
        if counts[Outcome.FAILED]:
            raise CommandError(f"{provider} does not keep the contract", returncode=1)

    def _print(self, result: CheckResult) -> None:
        if result.reason == NO_SANDBOX:
            return  # the check that failed for it says why, and the numbers below how many
        line = f"{result.outcome:<8} {result.duration_ms:>6} ms  {result.name}: {result.sentence}"
        self.stdout.write(line)
        if result.reason:
            self.stdout.write(f"{'':<20}{result.reason}")


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
    except Exception as error:  # noqa: BLE001 - anybody can bring a provider; the others are still told
        return Finding(name=name, ok=False, seen=f"{type(error).__name__}: {error}", fix=fix)


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
