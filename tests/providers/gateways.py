"""Sandboxes behind egress gateways, with an internet to go out to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.providers.internet import Internet, internet
from tests.providers.running import somebody

ALLOWED: dict[str, Any] = {
    "allowed_hosts": ["allowed.example", "*.files.example", "plain"],
    "denied_hosts": ["secret.files.example", "*.deep.files.example"],
}
DENIED: dict[str, Any] = {
    "default": "allow",
    "denied_hosts": ["ads.example", "*.tracker.example"],
}
# Who has which addresses: of several, one for each question in turn.
NAMES: dict[str, list[str]] = {
    "allowed.example": ["good"],
    "a.files.example": ["good"],
    "b.c.files.example": ["good"],
    "plain": ["good"],
    # Whatever is not allowed leads to the other machine.
    "files.example": ["bad"],
    "secret.files.example": ["bad"],
    "x.deep.files.example": ["bad"],
    "evilfiles.example": ["bad"],
    "evil.example": ["bad"],
    "notallowed.example": ["bad"],
    "sub.allowed.example": ["bad"],
    "allowed.example.evil.example": ["bad"],
    "allowed-example.evil.example": ["bad"],
    "other.example": ["bad"],
    "ads.example": ["bad"],
    "www.tracker.example": ["bad"],
    "tracker.example": ["good"],
    "sub.ads.example": ["good"],
    "loop.files.example": ["127.0.0.1"],
    "zero.files.example": ["0.0.0.0"],
    "home.files.example": ["10.0.0.1"],
    "bridge.files.example": ["172.17.0.1"],
    "carrier.files.example": ["100.64.0.1"],
    "metadata.files.example": ["169.254.169.254"],
    "wire.files.example": ["168.63.129.16"],
    "many.files.example": ["224.0.0.1"],
    "all.files.example": ["255.255.255.255"],
    "mapped.files.example": ["::ffff:10.0.0.1"],
    "six.files.example": ["2001:db8::1"],
    "local-six.files.example": ["::1"],
    "later.files.example": ["good", "127.0.0.1"],
    "sooner.files.example": ["169.254.169.254", "good"],
}


@pytest.fixture(scope="module")
def world(docker_image: str) -> Iterator[Internet]:
    """An internet that a module's tests share."""
    with internet(docker_image, NAMES) as made:
        yield made


@pytest.fixture(scope="module")
def gateways(docker_image: str, gateway_image: str, world: Internet) -> SandboxProvider:
    """The provider, with gateways that go out to that internet."""
    options = {
        "image": docker_image,
        "pull": "never",
        "gateway_image": gateway_image,
        "gateway_network": world.network,
        "gateway_name_servers": [world.good],
    }
    return open_provider("docker", options)


@pytest.fixture(scope="module")
def allowing(gateways: SandboxProvider) -> Iterator[LiveSandbox]:
    """A sandbox that may reach some hosts."""
    yield from _behind(gateways, ALLOWED)


@pytest.fixture(scope="module")
def denying(gateways: SandboxProvider) -> Iterator[LiveSandbox]:
    """A sandbox that may reach all hosts but some."""
    yield from _behind(gateways, DENIED)


def _behind(provider: SandboxProvider, policy: dict[str, Any]) -> Iterator[LiveSandbox]:
    owner = somebody()
    yield provider.create(Manifest.parse({"network_policy": policy}), owner=owner)
    provider.cleanup(owner.install)
