"""Every provider keeps the contract: one test for each check of the kit on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest

from sandboxes.manifest import Manifest
from sandboxes.providers import conformance
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.conformance import Bench, Check, Outcome
from sandboxes.providers.registry import open_provider, provider_spec
from tests.factories import FREE_POLICY
from tests.providers import unique
from tests.providers.conftest import HOSTED, docker_provider
from tests.providers.hosted import hosted
from tests.providers.running import somebody
from tests.server import Server

# Each provider by what it is called here, its entry in the table, and what it needs.
PLACES: dict[str, tuple[str, list[pytest.MarkDecorator]]] = {
    "local": ("local", []),
    "docker": ("docker", [pytest.mark.docker]),
    "gvisor": ("docker", [pytest.mark.docker, pytest.mark.gvisor]),
    "http": ("http", [pytest.mark.docker]),
    "e2b": ("e2b", [pytest.mark.standin]),
    "daytona": ("daytona", [pytest.mark.standin]),
    "modal": ("modal", [pytest.mark.standin]),
    "vercel": ("vercel", [pytest.mark.standin]),
}


def cases() -> Iterator[Any]:
    """Yield each provider with the checks that are for what its table claims."""
    for place, (name, marks) in PLACES.items():
        for check in conformance.checks():
            if check.needs <= provider_spec(name).can:
                yield pytest.param(place, check, marks=marks, id=f"{place}-{check.name}")


@pytest.fixture(scope="module")
def benches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Bench]]:
    """Return a function that gives each provider's bench: made when it is first asked for, once."""
    with ExitStack() as held:

        @cache
        def bench(place: str) -> Bench:
            if place in HOSTED:
                held.enter_context(hosted(place))
            provider, manifest = _place(request, place, str(tmp_path_factory.mktemp("local")))
            return held.enter_context(Bench(provider, manifest, somebody()))

        yield bench


def _place(
    request: pytest.FixtureRequest, place: str, folder: str
) -> tuple[SandboxProvider, Manifest]:
    if place == "local":
        fields = {"working_dir": folder, "network_policy": {"default": "allow"}}
        return open_provider("local", {}), Manifest.parse(fields)
    if place == "http":
        return _our_own_service(request.getfixturevalue("server")), Manifest()
    if place in HOSTED:
        return open_provider(place, {}), Manifest()
    image: str = request.getfixturevalue("docker_image")
    runtime = {"runtime": "runsc"} if place == "gvisor" else {}
    return docker_provider(image, **runtime), Manifest()


def _our_own_service(server: Server) -> SandboxProvider:
    """Return the http provider on another OmniWeb, whose sandboxes are containers."""
    name = unique("kit")
    server.policy(name, FREE_POLICY.replace("free", name))
    token = server.agent_made(name, name, environment="docker")
    return open_provider("http", {"base_url": f"{server.url}/sandbox/v1", "token": token})


@pytest.mark.parametrize(("place", "check"), list(cases()))
def test_a_provider_keeps_the_contract(
    benches: Callable[[str], Bench], place: str, check: Check
) -> None:
    result = check.on(benches(place))
    if result.outcome is Outcome.SKIPPED:
        pytest.skip(result.reason)
    assert result.outcome is Outcome.OK, result.reason
