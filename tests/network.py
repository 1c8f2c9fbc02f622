"""Keeps the tests on this machine: reaching for another one fails the test."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest


def _leaves(host: str) -> bool:
    """Tell whether an address is another machine's; a name is, because it has to be looked up."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host not in ("", "localhost")
    return not (address.is_loopback or address.is_unspecified)


def _check(host: str) -> None:
    """Fail the test; no `except Exception` on the way can swallow that."""
    if _leaves(host):
        pytest.fail(f"The tests may only connect to this machine, not to {host}.")


def _check_address(family: int, address: Any) -> None:
    if family in (socket.AF_INET, socket.AF_INET6):
        _check(str(address[0]))


@pytest.fixture(scope="session", autouse=True)
def _network_is_off() -> Iterator[None]:
    """Guard connecting, and looking up a name, which would be the first thing to leave."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex
    lookup = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _check_address(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _check_address(self.family, address)
        return connect_ex(self, address)

    def guarded_lookup(host: str | bytes | None, *args: Any, **kwargs: Any) -> Any:
        _check(host.decode() if isinstance(host, bytes) else host or "")
        return lookup(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_lookup)
        yield
