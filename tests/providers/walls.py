"""A provider that says it cuts the network off, and an outside of its own on loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from sandboxes.adapters.local import LocalProvider, LocalSandbox
from sandboxes.capabilities import Setting
from sandboxes.manifest import Manifest
from sandboxes.providers import isolation
from sandboxes.providers.base import Owner
from sandboxes.providers.isolation import Target
from sandboxes.providers.registry import provider_spec
from sandboxes.providers.table import VERIFY
from tests.providers.running import somebody

Serve = Callable[[socket.socket], None]


def hold(wire: socket.socket) -> None:
    """Take the connection and say nothing, as some firewalls do."""
    wire.recv(4096)
    wire.recv(4096)


def answer(text: bytes) -> Serve:
    """Return a server that answers every request with the same bytes."""

    def serve(wire: socket.socket) -> None:
        wire.recv(4096)
        wire.sendall(text)

    return serve


WEB = answer(
    b"HTTP/1.1 200 OK\r\nServer: somewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
MONITOR = answer(b"HTTP/1.1 401 Unauthorized\r\nServer: Firecracker API\r\n\r\n")
ALERT = answer(bytes.fromhex("15030300020228"))


@pytest.fixture
def listen() -> Iterator[Callable[..., int]]:
    """Return a function that serves on a port of loopback until the test is over."""
    with ExitStack() as opened:

        def start(serve: Serve, host: str = "127.0.0.1", tls: Path | None = None) -> int:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = opened.enter_context(closing(socket.create_server((host, 0), family=family)))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            if tls:
                context.load_cert_chain(tls)

            def one(wire: socket.socket) -> None:
                try:
                    with context.wrap_socket(wire, server_side=True) if tls else wire as held:
                        held.settimeout(30)
                        serve(held)
                except OSError:
                    pass

            def accept() -> None:
                while True:
                    try:
                        wire = server.accept()[0]
                    except OSError:
                        return
                    threading.Thread(target=one, args=(wire,), daemon=True).start()

            threading.Thread(target=accept, daemon=True).start()
            port: int = server.getsockname()[1]
            return port

        yield start


def closed_port() -> int:
    """Return a port of loopback where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def web(port: int, name: str = "the web", host: str = "127.0.0.1") -> Target:
    return Target(name=name, how="http", host=host, port=port)


class Walls(LocalProvider):
    """A provider that says it cuts the network off, with the option to check that."""

    made: list[LocalSandbox]

    def __init__(self, folder: Path, **options: object) -> None:
        local = provider_spec("local")
        spec = replace(
            local,
            name="walls",
            enforces=frozenset({Setting.NETWORK_OFF}),
            options=(*local.options, VERIFY),
            execution_surface="sandbox",
        )
        super().__init__(spec, spec.read_options(options))
        self.folder, self.ended = folder, 0

    def _create(self, manifest: Manifest, owner: Owner) -> LocalSandbox:
        provider = self

        class Wall(LocalSandbox):
            def terminate(self) -> None:
                provider.ended += 1
                super().terminate()

        made = super()._create(manifest, owner)
        return Wall(self, made.handle, manifest)

    def open(self, **network: object) -> LocalSandbox:
        fields = {"working_dir": str(self.folder), "network_policy": network}
        live = self.create(Manifest.parse(fields), owner=somebody())
        assert isinstance(live, LocalSandbox)
        return live


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets where outside is."""

    def set_to(*targets: Target) -> None:
        monkeypatch.setattr(isolation.targets_for, "__defaults__", (targets,))

    return set_to
