"""Docker's egress gateway: what passes it, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from omniweb.core.errors import OmniWebError, ProviderError, SandboxUnsupported
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.providers import gateway
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.providers.behind import asked, connected, get, is_answered, safe, status, talk, web
from tests.providers.gateways import ALLOWED
from tests.providers.running import run, somebody

pytestmark = [pytest.mark.docker, pytest.mark.gateway]

POLICY = {"network_policy": ALLOWED}


@pytest.fixture
def engine() -> Iterator[docker.APIClient]:
    """The Docker Engine."""
    with closing(docker.APIClient(version="auto")) as client:
        yield client


@pytest.fixture
def left(engine: docker.APIClient, install: str) -> Iterator[Any]:
    """Return a function that names what the engine has of this test's installation."""
    label = {"label": f"omniweb.install={install}"}

    def look() -> list[str]:
        containers = engine.containers(all=True, filters=label)
        networks = engine.networks(filters=label)
        return sorted(
            [*(one["Names"][0] for one in containers), *(one["Name"] for one in networks)]
        )

    yield look
    open_provider("docker", {}).cleanup(install)
    assert look() == []


# What passes


@pytest.mark.parametrize(
    "name",
    ["allowed.example", "ALLOWED.example", "allowed.example.", "a.files.example", "b.c.files.example",
     "plain"],
)  # fmt: skip
def test_an_allowed_host_is_reached_by_http_and_by_tls(allowing: LiveSandbox, name: str) -> None:
    assert '"me": "good"' in web(allowing, name)
    assert '"me": "good"' in safe(allowing, name.rstrip("."))
    assert is_answered(allowing, allowing.handle["address"], name)


@pytest.mark.parametrize("name", ["evil.example", "other.example", "secret.files.example"])
def test_another_host_has_no_address(allowing: LiveSandbox, name: str) -> None:
    assert web(allowing, name).startswith("failed: gaierror")


def test_a_denied_host_is_told_why_over_http(allowing: LiveSandbox) -> None:
    answer = web(allowing, allowing.handle["address"], "evil.example")
    assert status(answer) == "403"
    assert answer.endswith("The network policy of this sandbox does not allow this host.\n")


@pytest.mark.parametrize("name", ["evil.example", "tracker.example", "sub.ads.example"])
def test_where_some_are_denied_all_others_are_reached(denying: LiveSandbox, name: str) -> None:
    assert status(web(denying, name)) == "200"
    assert status(safe(denying, name)) == "200"


@pytest.mark.parametrize("name", ["ads.example", "www.tracker.example"])
def test_where_some_are_denied_those_are_not(denying: LiveSandbox, name: str) -> None:
    assert web(denying, name).startswith("failed: gaierror")
    assert not is_answered(denying, denying.handle["address"], name)


def test_a_name_is_answered_with_the_gateway_whatever_is_asked(allowing: LiveSandbox) -> None:
    way_out = allowing.handle["address"]
    for server in (way_out, "127.0.0.11"):
        assert asked(allowing, server, "a.files.example") == (0, way_out)
        assert asked(allowing, server, "gone.example") == (3, "")
        assert asked(allowing, server, "a.files.example", 28) == (0, "") or server == "127.0.0.11"


def test_a_host_that_has_no_address_is_unreachable(allowing: LiveSandbox) -> None:
    answer = web(allowing, "nobody.files.example")
    assert status(answer) == "502"
    assert "finds no IPv4 address" in answer


def test_a_websocket_is_carried_both_ways(allowing: LiveSandbox) -> None:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    head = get("allowed.example", "/socket", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
    head = head.replace("Connection: close", "Connection: Upgrade")
    answer = talk(allowing, "tcp", "allowed.example", 80, head, until="\r\n\r\n", then="hello")
    assert status(answer) == "101"
    assert answer.endswith("HELLO")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_much_is_carried_both_ways(allowing: LiveSandbox, scheme: str) -> None:
    line = """
import ssl, sys, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def ask(path, data=None):
    return urllib.request.urlopen(sys.argv[1] + path, data, timeout=60, context=context).read()
size = 64 * 1024 * 1024
print(len(ask("/big?%d" % size)) > size, ask("/", bytes(size)) == str(size).encode())
"""
    assert run(allowing, "python3", "-c", line, f"{scheme}://allowed.example").text == "True True"


# What is seen of it


def test_its_evidence_says_what_did_not_answer(allowing: LiveSandbox, denying: LiveSandbox) -> None:
    for sandbox, denied in ((allowing, "secret.files.example"), (denying, "ads.example")):
        evidence = sandbox.isolation
        assert evidence is not None
        assert (evidence.verdict, evidence.tool) == ("proven", "python")
        lines = {line.target: line.address for line in evidence.lines}
        assert lines["the name of a denied host"] == denied
        assert lines["a denied host through the gateway"] == f"{sandbox.handle['address']}:443"
        assert "the metadata address" in lines


def test_a_gateway_may_do_nothing_but_carry_bytes(
    allowing: LiveSandbox, engine: docker.APIClient
) -> None:
    name = allowing.handle["gateway"]
    found = engine.inspect_container(name)
    assert found["Config"]["User"] == "65534:65534"
    assert found["HostConfig"]["ReadonlyRootfs"]
    assert found["HostConfig"]["CapDrop"] == ["ALL"]
    assert found["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]
    assert engine.inspect_network(name)["Internal"]
    asked = engine.exec_create(name, ["sh", "-c", f"rm -f {gateway.FOLDER}/*; ls {gateway.FOLDER}"])
    assert b"haproxy.cfg" in engine.exec_start(asked["Id"])


def test_a_sandbox_is_paused_resumed_found_again_and_kept_behind_its_gateway(
    gateways: SandboxProvider, allowing: LiveSandbox, engine: docker.APIClient
) -> None:
    allowing.pause()
    assert not allowing.is_running()
    allowing.resume()
    again = gateways.attach(allowing.handle, Manifest.parse(POLICY))
    assert again.is_running()
    assert status(web(again, "allowed.example")) == "200"
    image = again.snapshot()
    engine.remove_image(image)
    assert status(web(again, "allowed.example")) == "200"


def test_host_lists_are_not_changed_afterwards(allowing: LiveSandbox) -> None:
    for fields in (ALLOWED, {"default": "allow"}):
        with pytest.raises(SandboxUnsupported, match="fixed when it is created"):
            allowing.set_network(NetworkPolicy.model_validate(fields))
    assert status(web(allowing, "allowed.example")) == "200"


# What is refused


def test_without_its_image_it_is_said_how_to_make_one(
    gateways: SandboxProvider, install: str, left: Any
) -> None:
    bare = open_provider("docker", {**gateways.options, "gateway_image": "omniweb-none:7"})
    with pytest.raises(SandboxUnsupported) as refused:
        bare.create(Manifest.parse(POLICY), owner=somebody(install=install))
    assert refused.value.detail == (
        "Host lists need the egress gateway's image omniweb-none:7, which is not on the Docker "
        "host; build it there: docker build -t omniweb-none:7 deploy/gateway"
    )
    assert left() == []
    assert refused.value.detail in bare.check()
    assert f"egress gateway {gateways.options['gateway_image']}" in gateways.check()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("gateway_network", "omniweb-no-such-network", "omniweb-no-such-network"),
        ("gateway_image", "omniweb-test:latest", "The egress gateway did not start"),
        ("image", "omniweb-none:7", "omniweb-none:7"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(
    gateways: SandboxProvider, install: str, left: Any, option: str, value: str, said: str
) -> None:
    broken = open_provider("docker", {**gateways.options, option: value})
    with pytest.raises(OmniWebError, match=said):
        broken.create(Manifest.parse(POLICY), owner=somebody(install=install))
    assert left() == []


# Its end


def unchecked(gateways: SandboxProvider) -> SandboxProvider:
    """Return the provider without its look from inside, which takes seconds."""
    return open_provider("docker", {**gateways.options, "verify_network_isolation": False})


def test_a_sandbox_whose_gateway_is_gone_has_no_network_and_is_not_running(
    gateways: SandboxProvider, install: str, left: Any, engine: docker.APIClient
) -> None:
    owner = somebody(install=install)
    sandbox = unchecked(gateways).create(Manifest.parse(POLICY), owner=owner)
    engine.kill(sandbox.handle["gateway"], signal="KILL")
    assert connected(sandbox, [(sandbox.handle["address"], 80)]) == []
    assert not sandbox.is_running()
    assert [one.running for one in gateways.list_owned(install)] == [False]
    sandbox.terminate()
    sandbox.terminate()
    assert left() == []


def test_half_a_gateway_is_none(
    gateways: SandboxProvider, install: str, engine: docker.APIClient
) -> None:
    owner = somebody(install=install)
    sandbox = unchecked(gateways).create(Manifest.parse(POLICY), owner=owner)
    try:
        line = "for p in /proc/[0-9]*; do [ $(cat $p/comm) = knotd ] && kill -9 ${p#/proc/}; done"
        asked = engine.exec_create(sandbox.handle["gateway"], ["sh", "-c", line])
        with suppress(docker.errors.APIError):
            engine.exec_start(asked["Id"])
        engine.wait(sandbox.handle["gateway"], timeout=30)
        assert not sandbox.is_running()
    finally:
        gateways.cleanup(install)


def test_the_whole_of_it_is_found_by_its_labels(
    gateways: SandboxProvider, install: str, left: Any, engine: docker.APIClient
) -> None:
    owner = somebody(install=install)
    sandbox = unchecked(gateways).create(Manifest.parse(POLICY), owner=owner)
    [owned] = gateways.list_owned(install, run=owner.run)
    assert (owned.sandbox, owned.running) == (owner.sandbox, True)
    assert gateways.list_owned(install, run="run_other") == []
    # A network and a gateway without their sandbox are one, too, and so is a network alone.
    engine.remove_container(sandbox.handle["container"], force=True)
    [owned] = gateways.list_owned(install)
    assert (owned.run, owned.sandbox, owned.running) == (owner.run, owner.sandbox, False)
    engine.remove_container(sandbox.handle["gateway"], force=True, v=True)
    [owned] = gateways.list_owned(install)
    assert gateways.cleanup(install) == 1
    assert left() == []


def test_two_who_end_it_at_once_both_succeed(
    gateways: SandboxProvider, install: str, left: Any
) -> None:
    owner = somebody(install=install)
    sandbox = unchecked(gateways).create(Manifest.parse(POLICY), owner=owner)
    trouble: list[Exception] = []

    def end() -> None:
        try:
            gateways.attach(sandbox.handle, Manifest()).terminate()
        except ProviderError as error:
            trouble.append(error)

    ending = [threading.Thread(target=end) for _ in range(3)]
    for one in ending:
        one.start()
    for one in ending:
        one.join()
    assert trouble == []
    assert left() == []


STEPS = (
    "create_network",
    "create_container",
    "connect_container_to_network",
    "put_archive",
    "start",
)
# Makes a sandbox and kills itself right after the given call of the engine's client, its nth.
DYING = """
import os, signal, sys
import docker
step, nth, options, install = sys.argv[1], int(sys.argv[2]), *map(eval, sys.argv[3:])
real, count = getattr(docker.APIClient, step), 0
def dying(*args, **kwargs):
    global count
    answer = real(*args, **kwargs)
    count += 1
    if count == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
setattr(docker.APIClient, step, dying)
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Owner
from sandboxes.providers.registry import open_provider
manifest = Manifest.parse({"network_policy": {"allowed_hosts": ["allowed.example"]}})
owner = Owner(install=install, run="run_x", sandbox=install)
open_provider("docker", options).create(manifest, owner=owner)
"""


@pytest.mark.parametrize(
    ("step", "nth"), [*((step, 1) for step in STEPS), ("create_container", 2), ("start", 2)]
)
def test_killed_between_any_two_calls_it_leaves_nothing_that_is_not_found(
    gateways: SandboxProvider, install: str, left: Any, step: str, nth: int
) -> None:
    options = {name: list(value) if isinstance(value, tuple) else value
               for name, value in gateways.options.items()}  # fmt: skip
    killed = subprocess.run(
        [sys.executable, "-c", DYING, step, str(nth), repr(options), repr(install)],
        cwd=Path(__file__).parents[2],
        env={**os.environ},
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert left() != []
    [owned] = gateways.list_owned(install)
    assert owned.sandbox == install
    gateways.cleanup(install)
    assert left() == []
