"""What host lists cost in Docker.

A sandbox behind an egress gateway beside one without: made until it is ready (with the look from
inside, in which the kernel gives up on addresses that nobody has), a command in it, and what it
fetches from a web server on the same machine. Beside the fetching, a container that is on the
server's network itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import docker

from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests import environment
from tests.bench.clock import alternate, timed
from tests.bench.figure import Figure, Scale, at_least_times, at_most, at_most_above, timing
from tests.bench.machine import need
from tests.providers.internet import Internet, internet
from tests.providers.running import run, somebody

HOST = "allowed.example"
LISTED = {"network_policy": {"allowed_hosts": [HOST]}}
MEGABYTES = 256
# Prints the seconds of so many small answers, one connection each, and of one large one.
FETCH = """
import json, socket, ssl, sys, time
host, port, rounds, size = sys.argv[1], *map(int, sys.argv[2:])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
buffer = bytearray(1 << 18)
def fetch(path):
    began = time.perf_counter()
    wire = socket.create_connection((host, port))
    if port == 443:
        wire = context.wrap_socket(wire, server_hostname="allowed.example")
    wire.sendall(b"GET %s HTTP/1.1\\r\\nHost: allowed.example\\r\\nConnection: close\\r\\n\\r\\n" % path)
    got = 0
    while count := wire.recv_into(buffer):
        got += count
    wire.close()
    return time.perf_counter() - began, got
small = [fetch(b"/")[0] for _ in range(rounds)]
seconds, got = fetch(b"/big?%d" % size)
assert got > size
print(json.dumps([small, seconds]))
"""


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure with an internet of the tests' kind."""
    need("gateway")
    with (
        closing(docker.APIClient(version="auto")) as engine,
        internet(environment.DOCKER_IMAGE, {HOST: ["good"]}) as world,
    ):
        provider = _provider(world)
        yield from _made(scale, provider, _provider(world, verify_network_isolation=False))
        owner = somebody()
        try:
            listed = provider.create(Manifest.parse(LISTED), owner=owner)
            bare = provider.create(Manifest(), owner=owner)
            ours, reference = alternate(
                scale.rounds(100, 20),
                timed(lambda: run(listed, "true")),
                timed(lambda: run(bare, "true")),
            )
            yield timing(
                "`true` behind a gateway", ours, "without network", reference,
                aim=at_most_above(10, "ms"),
            )  # fmt: skip
            for port in (80, 443):
                yield from _fetched(scale, engine, world, listed, port)
        finally:
            provider.cleanup(owner.install)


def _provider(world: Internet, **options: Any) -> SandboxProvider:
    way_out = {
        "gateway_image": environment.GATEWAY_IMAGE,
        "gateway_network": world.network,
        "gateway_name_servers": [world.good],
    }
    image = {"image": environment.DOCKER_IMAGE, "pull": "never"}
    return open_provider("docker", {**image, **way_out, **options})


def _made(scale: Scale, checked: SandboxProvider, unchecked: SandboxProvider) -> Iterator[Figure]:
    def make(provider: SandboxProvider, fields: dict[str, Any]) -> None:
        owner = somebody()
        provider.create(Manifest.parse(fields), owner=owner)
        provider.cleanup(owner.install)

    rounds = scale.rounds(10)
    for what, provider, limit in (
        ("A sandbox with host lists, made and ended", checked, 10_000),
        ("The same without the look from inside", unchecked, 5_000),
    ):
        ours, reference = alternate(
            rounds,
            timed(partial(make, provider, LISTED)),
            timed(partial(make, checked, {})),
        )
        yield timing(what, ours, "without network", reference, aim=at_most(limit, "ms"))


def _fetched(
    scale: Scale, engine: docker.APIClient, world: Internet, listed: LiveSandbox, port: int
) -> Iterator[Figure]:
    size = (16 if scale.quick else MEGABYTES) * 1024 * 1024
    arguments = [str(port), str(scale.rounds(200, 20)), str(size)]
    fetched = run(listed, "python3", "-c", FETCH, HOST, *arguments)
    assert fetched.code == 0, fetched.stderr.decode()
    through = json.loads(fetched.stdout)
    asked = engine.exec_create(
        world.machines["bad"], ["python3", "-c", FETCH, world.good, *arguments]
    )
    direct = json.loads(engine.exec_start(asked["Id"]))
    scheme = "HTTPS" if port == 443 else "HTTP"
    yield timing(
        f"A small answer by {scheme} through the gateway", through[0], "directly", direct[0],
        aim=at_most_above(20, "ms"),
    )  # fmt: skip
    yield Figure(
        what=f"A large answer by {scheme} through the gateway",
        value=size / through[1] / 1e6,
        unit="MB/s",
        reference="directly",
        reference_value=size / direct[1] / 1e6,
        aim=at_least_times(0.2),
    )
