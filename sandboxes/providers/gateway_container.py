"""An egress gateway as Docker has it: a network for one sandbox, and the container that is its way out.

Both carry the sandbox's labels and one name, known before either exists, so whoever finds the name
ends both. The host has no address on the network, and Docker forwards nothing from it.
"""

from __future__ import annotations

import io
import secrets
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import docker.errors
from docker.types import IPAMConfig, IPAMPool, LogConfig, Ulimit

from omniweb.core.errors import OmniWebError, ProviderError, SandboxUnsupported
from sandboxes.manifest import NetworkPolicy
from sandboxes.providers import gateway
from sandboxes.providers.engine import (
    client,
    create_container,
    engine_errors,
    image_is_there,
    remove,
)
from sandboxes.providers.limits import MIB

LABEL = "omniweb.gateway"
# Room for 8192 networks of a gateway and a sandbox. The host has no address in any of them, so it
# does not matter what else it calls by these numbers; Docker's own pools have room for about 30.
POOL = IPv4Network("10.207.0.0/16")
PREFIX = 29
TRIES = 30
START_SECONDS = 20
# Waited in between, to see whether what is on a network leaves it.
LEAVING_SECONDS = (0.1, 0.3, 0.6, 1.0, 2.0)
# Listening is seen from inside the gateway, where nothing is in between.
_LISTENING = (
    "bash", "-c",
    "for port in {ports}; do until (: </dev/tcp/{address}/$port) 2>/dev/null; do sleep 0.05; done; done",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a gateway goes out: its image, the Docker network it is on, and whom it asks for names."""

    image: str
    network: str
    name_servers: tuple[IPv4Address, ...]


def open_gateway(
    name: str, policy: NetworkPolicy, way: Way, labels: Mapping[str, str]
) -> IPv4Address:
    """Make a network and its gateway; return the gateway's address in it once it works.

    Raises SandboxUnsupported (its image or its network is not there), ProviderUnavailable and
    ProviderError; what was made until then is there for `close_gateway`.
    """
    if not image_is_there(way.image):
        raise SandboxUnsupported(no_image(way.image))
    address = _make_network(name, labels)
    container = _make_container(name, way, labels)
    with engine_errors():
        client().connect_container_to_network(container, name, ipv4_address=str(address))
        texts = gateway.files(policy, address, way.name_servers)
        client().put_archive(container, gateway.FOLDER, _archive(texts))
        client().start(container)
    _await(container, address)
    return address


def close_gateway(name: str) -> None:
    """Remove a gateway and its network, or what is left of them; its sandbox is gone by now.

    Raises ProviderUnavailable and ProviderError.
    """
    with engine_errors():
        remove(client().remove_container, name, force=True, v=True)
        _remove_network(name)


def is_open(name: str) -> bool:
    """Say whether a gateway runs. Raises ProviderUnavailable and ProviderError."""
    with engine_errors():
        try:
            return bool(client().inspect_container(name)["State"]["Running"])
        except docker.errors.NotFound:
            return False


def networks(labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the engine says about the networks of gateways that carry all these labels.

    Raises ProviderUnavailable and ProviderError.
    """
    with engine_errors():
        found: list[dict[str, Any]] = client().networks(filters={"label": [LABEL, *labels]})
    return found


def no_image(image: str) -> str:
    """Return what to do about a gateway image that is not there."""
    return (
        f"Host lists need the egress gateway's image {image}, which is not on the Docker host; "
        f"build it there: docker build -t {image} deploy/gateway"
    )


def _make_network(name: str, labels: Mapping[str, str]) -> IPv4Address:
    """Make a network where there is room for one; return the address its gateway will have."""
    for _ in range(TRIES):
        place = secrets.randbelow(2 ** (PREFIX - POOL.prefixlen)) << (32 - PREFIX)
        subnet = IPv4Network((int(POOL.network_address) + place, PREFIX))
        try:
            with engine_errors():
                client().create_network(
                    name,
                    driver="bridge",
                    options={"com.docker.network.bridge.inhibit_ipv4": "true"},
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                    internal=True,
                    check_duplicate=True,
                    labels={**labels, LABEL: name},
                )
            return subnet[2]
        except ProviderError as error:
            if "overlap" not in error.detail:
                raise
    raise ProviderError(f"Docker has no room for another network in {POOL}")


def _make_container(name: str, way: Way, labels: Mapping[str, str]) -> str:
    """Return the id of the gateway's container, which may do nothing but carry bytes."""
    memory = 256 * MIB
    host = client().create_host_config(
        network_mode=way.network,
        read_only=True,
        tmpfs={"/tmp": "rw,noexec,nosuid,nodev,size=16m,mode=1777"},  # noqa: S108 -- the container's
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=64,
        init=True,
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=10**9,
        ulimits=[Ulimit(name="nofile", soft=8192, hard=8192)],
        log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": "1m"}),
        sysctls={
            "net.ipv4.ip_unprivileged_port_start": "0",
            # It takes what is for itself, and passes on no packet of anyone.
            "net.ipv4.ip_forward": "0",
            "net.ipv4.conf.all.accept_source_route": "0",
        },
    )
    return create_container(
        {
            "name": name,
            "image": way.image,
            "entrypoint": gateway.COMMAND[:1],
            "command": gateway.COMMAND[1:],
            "user": "65534:65534",
            # Where the files go: nothing else can be written to before the container starts.
            "volumes": [gateway.FOLDER],
            "labels": {**labels, LABEL: name},
            "healthcheck": {"test": ["NONE"]},
            "host_config": host,
        },
        pull=False,
    )


def _remove_network(name: str) -> None:
    """Remove a network, once what somebody else is removing has left it."""
    for seconds in LEAVING_SECONDS:
        try:
            remove(client().remove_network, name)
        except docker.errors.APIError as error:
            if "active endpoints" not in str(error.explanation):
                raise
            time.sleep(seconds)
        else:
            return
    remove(client().remove_network, name)


def _await(container: str, address: IPv4Address) -> None:
    """Wait until a gateway listens; raises ProviderError with its last words when it does not."""
    argv = [
        "timeout", str(START_SECONDS), *_LISTENING[:2],
        _LISTENING[2].format(ports=" ".join(map(str, gateway.PORTS)), address=address),
    ]  # fmt: skip
    code, trouble = None, ""
    try:
        with engine_errors():
            asked = client().exec_create(container, argv)["Id"]
            client().exec_start(asked)
            code = client().exec_inspect(asked)["ExitCode"]
    except OmniWebError as error:
        trouble = error.detail
    if code == 0:
        return
    said = b""
    with suppress(OmniWebError), engine_errors():
        said = client().logs(container, tail=5)
    words = said.decode("utf-8", "replace").strip()
    raise ProviderError(f"The egress gateway did not start: {words or trouble or 'it is silent'}")


def _archive(texts: Mapping[str, str]) -> bytes:
    """Return a tar archive of files that everybody may read and only root may write."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, text in texts.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o444
            archive.addfile(entry, io.BytesIO(data))
    return held.getvalue()
