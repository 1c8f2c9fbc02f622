"""Vendors of hosted sandboxes for a test: started, found by the SDK, and stopped with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest


@contextmanager
def hosted(provider: str) -> Iterator[Any]:
    """Yield a vendor's stand-in that the variables of this process lead its SDK to."""
    vendor = import_module(f"tests.standins.{provider}").start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (vendor.variables | vendor.addresses).items():
            patch.setenv(name, value)
        yield vendor
    vendor.stop()
