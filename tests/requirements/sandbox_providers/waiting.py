"""What waits for an adapter that is not there yet. This list only shrinks.

An entry is a passage of the document that has its test already, marked to fail until the provider
is driven. Whoever writes the adapter takes its entries out, passage by passage, and writes
`tests/standins/<provider>.py`, whose `Vendor` is described here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import pytest

from omniweb.core.errors import ProviderMissing
from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import open_provider
from tests import machine
from tests.providers.running import somebody

_EVERY_HOSTED = {
    "the extra installs its SDK",
    "a missing SDK is said",
    "an image in the manifest wins",
    "max_output_bytes caps each stream",
    "no credential is inside",
}
WAITING: dict[str, frozenset[str]] = {
    "modal": frozenset(
        _EVERY_HOSTED
        | {
            "block_network",
            "the network is on when the manifest says so",
            "allowed hosts are its outbound_domain_allowlist",
            "an app of ours, made if missing",
            "timeout_seconds is its lifetime",
        }
    ),
}


class Vendor(Protocol):
    """A vendor's service on this machine, for its real SDK."""

    # Options and variables that lead our adapter to it: credentials, and where it listens.
    options: dict[str, Any]
    variables: dict[str, str]
    addresses: dict[str, str]
    # What sandboxes it was asked for, each with the fields its API has for them.
    created: list[dict[str, Any]]
    # Those that have not been ended.
    living: set[str]
    # Whether commands in its sandboxes reach the internet, and whether its image has Python.
    reaches_internet: bool
    has_python: bool

    def stop(self) -> None:
        """End it and its sandboxes."""


# Those a test has started, stopped after it by the fixture in `conftest.py`.
started: list[Vendor] = []


class Hosted:
    """Our adapter and the stand-in it talks to; making one fails while there is no adapter."""

    def __init__(self, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = provider
        open_provider(provider, {})
        machine.require("standin")
        self.vendor: Vendor = import_module(f"tests.standins.{provider}").start()
        started.append(self.vendor)
        for name, value in (self.vendor.variables | self.vendor.addresses).items():
            monkeypatch.setenv(name, value)

    def create(self, fields: dict[str, Any] | None = None, **options: Any) -> LiveSandbox:
        """Return a sandbox: manifest fields, then options of the provider."""
        provider = open_provider(self.name, self.vendor.options | options)
        return provider.create(Manifest.parse(fields or {}), owner=somebody())


def hosted(passage: str, *providers: str) -> pytest.MarkDecorator:
    """Run a test with each provider's adapter, and expect it to fail where that is waited for."""
    cases = [
        pytest.param(provider, marks=_marks(provider, passage), id=f"{provider}: {passage}")
        for provider in providers
    ]
    return pytest.mark.parametrize("provider", cases)


# What was marked, so that a test can compare it with the list.
marked: set[tuple[str, str]] = set()


def _marks(provider: str, passage: str) -> list[pytest.MarkDecorator]:
    if passage not in WAITING.get(provider, ()):
        return []
    marked.add((provider, passage))
    reason = f"waits for the {provider} adapter"
    return [pytest.mark.xfail(strict=True, raises=ProviderMissing, reason=reason)]
