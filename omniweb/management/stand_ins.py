"""Stand-ins of vendors on this machine: what shows or checks a hosted provider without an account."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from django.core.management.base import CommandError

from sandboxes.providers.registry import check_installed
from sandboxes.providers.spec import ProviderSpec

STAND_INS = "tests.standins"


@contextmanager
def stand_in(spec: ProviderSpec) -> Iterator[dict[str, Any]]:
    """Have a provider's stand-in run, found from here and from child processes; give its options.

    Raises ProviderMissing for a missing SDK, and CommandError where there is no stand-in or this
    machine cannot run its sandboxes.
    """
    check_installed(spec.name)
    name = f"{STAND_INS}.{spec.name}"
    try:
        vendor = import_module(name)
        missing = import_module(f"{STAND_INS}.place").missing()
    except ModuleNotFoundError as error:
        if not name.startswith(str(error.name)):
            raise
        raise CommandError(
            f"There is no stand-in for {spec.name}: only hosted providers have one, and only in a "
            "checkout of OmniWeb's source"
        ) from None
    if missing:
        raise CommandError(f"{missing}; on Debian: apt install bubblewrap util-linux")
    running = vendor.start()
    try:
        with _set({**running.variables, **running.addresses}):
            yield running.options
    finally:
        running.stop()


@contextmanager
def _set(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
