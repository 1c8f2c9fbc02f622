"""Every provider keeps the contract: one test for each check of the kit on each of them.

Below are the few things that are asked here more strictly than a provider of one's own is asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from omniweb.core.errors import InvalidInput, NotFound
from sandboxes.manifest import Manifest
from sandboxes.providers import conformance
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.conformance import Bench, Check, Outcome
from sandboxes.providers.registry import open_provider, provider_spec
from tests.factories import FREE_POLICY
from tests.providers import unique
from tests.providers.conftest import HOSTED, docker_provider
from tests.providers.hosted import hosted
from tests.providers.running import run, sh, somebody
from tests.server import Server

# Each provider by what it is called here, its entry in the table, and what it needs.
PLACES: dict[str, tuple[str, list[pytest.MarkDecorator]]] = {
    "local": ("local", []),
    "docker": ("docker", [pytest.mark.docker]),
    "gvisor": ("docker", [pytest.mark.docker, pytest.mark.gvisor]),
    "http": ("http", [pytest.mark.docker]),
    "e2b": ("e2b", [pytest.mark.standin]),
    "daytona": ("daytona", [pytest.mark.standin]),
    "vercel": ("vercel", [pytest.mark.standin]),
}


def cases() -> Iterator[Any]:
    """Yield each provider with the checks that are for what its table claims."""
    for place, (name, marks) in PLACES.items():
        for check in conformance.checks():
            if check.needs <= provider_spec(name).can:
                yield pytest.param(place, check, marks=marks, id=f"{place}-{check.name}")


@pytest.fixture(scope="module")
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A bench of each provider; a module's tests share its sandbox."""
    with ExitStack() as held:
        if request.param in HOSTED:
            held.enter_context(hosted(request.param))
        provider, manifest = _place(request, str(tmp_path_factory.mktemp("local")))
        yield held.enter_context(Bench(provider, manifest, somebody()))


def _place(request: pytest.FixtureRequest, folder: str) -> tuple[SandboxProvider, Manifest]:
    if request.param == "local":
        fields = {"working_dir": folder, "network_policy": {"default": "allow"}}
        return open_provider("local", {}), Manifest.parse(fields)
    if request.param == "http":
        return _our_own_service(request.getfixturevalue("server")), Manifest()
    if request.param in HOSTED:
        return open_provider(request.param, {}), Manifest()
    image: str = request.getfixturevalue("docker_image")
    runtime = {"runtime": "runsc"} if request.param == "gvisor" else {}
    return docker_provider(image, **runtime), Manifest()


def _our_own_service(server: Server) -> SandboxProvider:
    """Return the http provider on another OmniWeb, whose sandboxes are containers."""
    name = unique("kit")
    server.policy(name, FREE_POLICY.replace("free", name))
    token = server.agent_made(name, name, environment="docker")
    return open_provider("http", {"base_url": f"{server.url}/sandbox/v1", "token": token})


@pytest.mark.parametrize(("bench", "check"), list(cases()), indirect=["bench"])
def test_a_provider_keeps_the_contract(bench: Bench, check: Check) -> None:
    result = check.on(bench)
    if result.outcome is Outcome.SKIPPED:
        pytest.skip(result.reason)
    assert result.outcome is Outcome.OK, result.reason


def test_bytes_of_any_value_and_number_come_through_stdin(live: LiveSandbox) -> None:
    data = bytes(range(256)) * 20_000
    line = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    assert run(live, "python3", "-c", line, stdin=data).text == hashlib.sha256(data).hexdigest()


def test_a_file_of_100_mb_fits_through(live: LiveSandbox) -> None:
    data, name = b"0123456789abcdef" * (100 * 65536), unique("large")
    live.write_file(name, data)
    assert live.read_file(name) == data
    sh(live, f"rm {name}")


@pytest.mark.parametrize("path", ["../x", "/etc/hosts", "a/../../x", "/", ".."])
def test_a_path_outside_the_working_directory_is_refused_in_one_sentence(
    live: LiveSandbox, path: str
) -> None:
    message = f"Path {path} is outside the sandbox working directory"
    for use in (live.read_file, live.list_files, lambda path: live.write_file(path, b"")):
        with pytest.raises(InvalidInput) as refused:
            use(path)
        assert refused.value.detail == message


def test_what_is_no_file_is_said_plainly(live: LiveSandbox) -> None:
    folder = unique("plain")
    live.write_file(f"{folder}/file", b"")
    assert sh(live, f"mkfifo {folder}/pipe").code == 0
    with pytest.raises(NotFound, match="does not exist"):
        live.read_file(f"{folder}/missing")
    with pytest.raises(NotFound, match="does not exist"):
        live.list_files(f"{folder}/missing")
    with pytest.raises(InvalidInput, match="is a directory"):
        live.read_file(folder)
    with pytest.raises(InvalidInput, match="is a directory"):
        live.write_file(folder, b"")
    with pytest.raises(InvalidInput, match="is not a file"):
        live.read_file(f"{folder}/pipe")
