"""A Docker Engine that goes away in the middle, and comes back."""

from __future__ import annotations

import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniweb.core.errors import ProviderUnavailable
from sandboxes.manifest import Manifest
from tests.providers.conftest import docker_provider
from tests.providers.running import sh, somebody

pytestmark = pytest.mark.docker
ENGINE = "/var/run/docker.sock"


class Line:
    """A socket that leads to the engine and can be cut."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends: list[socket.socket] = []

    def up(self) -> None:
        """Listen, and carry whatever comes to the engine and back."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Stop listening and break every connection."""
        self.path.unlink(missing_ok=True)
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(ENGINE)
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Line]:
    """Return a line to the engine over which this test reaches it."""
    if not Path(ENGINE).exists():
        pytest.skip("the Docker Engine does not listen on its usual socket")
    made = Line(tmp_path / "engine.sock")
    made.up()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    yield made
    made.cut()


# The SDK leaves connections that broke to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_command_whose_engine_goes_away_has_no_result_and_the_sandbox_is_found_again(
    line: Line, docker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, owner = docker_provider(docker_image), somebody()
    try:
        sandbox = provider.create(Manifest(), owner=owner)
        threading.Timer(1.0, line.cut).start()
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable):
            sh(sandbox, "echo begun; sleep 30; echo done")
        assert time.monotonic() - started < 10
        with pytest.raises(ProviderUnavailable):
            sh(sandbox, "true")
        line.up()
        assert sh(sandbox, "echo back").text == "back"
    finally:
        monkeypatch.delenv("DOCKER_HOST")
        provider.cleanup(owner.install)
    gc.collect()
