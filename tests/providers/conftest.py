"""Sandboxes for tests; whatever a test leaves behind is removed by its installation's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox, Owner, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.providers import unique
from tests.providers.hosted import hosted
from tests.providers.running import somebody

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
E2B = pytest.param("e2b", marks=pytest.mark.standin)
DAYTONA = pytest.param("daytona", marks=pytest.mark.standin)
MODAL = pytest.param("modal", marks=pytest.mark.standin)
VERCEL = pytest.param("vercel", marks=pytest.mark.standin)
HOSTED = ("e2b", "daytona", "modal", "vercel")
GVISOR = pytest.param("gvisor", marks=[pytest.mark.docker, pytest.mark.gvisor])

Create = Callable[..., LiveSandbox]


def docker_provider(image: str, /, **options: Any) -> SandboxProvider:
    """Return the Docker provider on an image that is there."""
    return open_provider("docker", {"image": image, "pull": "never"} | options)


@pytest.fixture
def install() -> str:
    """Return the name of an installation that only this test has."""
    return unique("test")


@pytest.fixture
def create(docker_image: str, install: str) -> Iterator[Create]:
    """Return a function that makes a container: manifest fields, then options of the provider."""

    def make(
        fields: Mapping[str, Any] | None = None, *, owner: Owner | None = None, **options: Any
    ) -> LiveSandbox:
        provider = docker_provider(docker_image, **options)
        return provider.create(
            Manifest.parse(fields or {}), owner=owner or somebody(install=install)
        )

    yield make
    docker_provider(docker_image).cleanup(install)


@pytest.fixture(scope="module", params=["local", DOCKER, GVISOR, E2B, DAYTONA, MODAL, VERCEL])
def live(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveSandbox]:
    """Return a sandbox of each provider that runs commands; a module's tests share it."""
    owner = somebody()
    with ExitStack() as held:
        if request.param in HOSTED:
            held.enter_context(hosted(request.param))
        provider, manifest = _provider(request, tmp_path_factory.mktemp("local"))
        yield provider.create(manifest, owner=owner)
        provider.cleanup(owner.install)


def _provider(request: pytest.FixtureRequest, folder: Path) -> tuple[SandboxProvider, Manifest]:
    if request.param == "local":
        fields = {"working_dir": str(folder), "network_policy": {"default": "allow"}}
        return open_provider("local", {}), Manifest.parse(fields)
    if request.param in HOSTED:
        return open_provider(request.param, {}), Manifest()
    image: str = request.getfixturevalue("docker_image")
    runtime = {"runtime": "runsc"} if request.param == "gvisor" else {}
    return docker_provider(image, **runtime), Manifest()
