"""The hosted providers and the stand-ins of their vendors (`tests/standins`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import pytest

from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import open_provider
from tests import machine
from tests.providers.running import somebody


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
    """Our adapter and the stand-in it talks to."""

    def __init__(self, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = provider
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
    """Run a test of a passage of the document with each provider's adapter."""
    cases = [pytest.param(provider, id=f"{provider}: {passage}") for provider in providers]
    return pytest.mark.parametrize("provider", cases)
