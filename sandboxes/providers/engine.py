"""A Docker Engine: one client for the process, its errors in our words, commands in containers."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import docker
import docker.errors
import docker.utils
import requests

from omniweb.core.errors import (
    Conflict,
    OmniWebError,
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.providers.base import Stream
from sandboxes.providers.pump import Inlet, Outlet, Output, Pump, Stop, Watch
from sandboxes.providers.shell import UNKNOWN_EXIT

# For one answer of the engine; a command's own output has no such limit.
ANSWER_SECONDS = 60
# Each running command holds a connection, and each look at it needs another.
CONNECTIONS = 128
# How an image's own volumes are mounted.
VOLUME = "rw,exec,nosuid,nodev,size=64m,mode=1777"

_clients: dict[tuple[int, str], docker.APIClient] = {}
_lock = threading.Lock()


def client() -> docker.APIClient:
    """Return this process's client, made at first use from DOCKER_HOST and its companions.

    Raises ProviderUnavailable. A forked process makes its own: sockets cannot be shared.
    """
    key = os.getpid(), os.environ.get("DOCKER_HOST", "")
    with _lock:
        if key not in _clients:
            with engine_errors():
                _clients[key] = docker.APIClient(
                    version="auto",
                    timeout=ANSWER_SECONDS,
                    max_pool_size=CONNECTIONS,
                    **docker.utils.kwargs_from_env(),
                )
        return _clients[key]


@contextmanager
def engine_errors(container: str = "") -> Iterator[None]:
    """Turn what the SDK raises into the provider's errors; `container` is whose absence means lost."""
    try:
        yield
    except OmniWebError:
        raise
    except docker.errors.APIError as error:
        raise _explained(error, container) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise ProviderUnavailable(
            "The Docker Engine cannot be reached; start Docker, or set DOCKER_HOST to where it listens"
        ) from error


def _explained(error: docker.errors.APIError, container: str) -> OmniWebError:
    said = str(error.explanation or error)
    if container and (error.status_code == 404 or "is not running" in said):
        return SandboxLost(
            f"The sandbox {container[:12]} no longer exists; the command did not finish"
        )
    if "is paused" in said:
        return Conflict(f"The sandbox {container[:12]} is paused; resume it first")
    return ProviderError(f"Docker refused: {said}")


def create_container(settings: Mapping[str, Any], *, pull: bool) -> str:
    """Return the id of a new container that is not started yet.

    Raises SandboxUnsupported for an image that is not there or cannot be fetched, and for
    settings the engine refuses; and what `engine_errors` raises.
    """
    declared = _image(settings["image"], pull=pull)["Config"].get("Volumes") or {}
    for path in declared:
        # It would be a folder on the host's disk, without a limit.
        settings["host_config"]["Tmpfs"].setdefault(path, VOLUME)
    try:
        with engine_errors():
            created: str = client().create_container(**settings, use_config_proxy=False)["Id"]
    except ProviderError as error:
        if "runtime specified" in error.detail or "runtime name" in error.detail:
            raise SandboxUnsupported(no_runtime(settings["host_config"].get("Runtime"))) from error
        cause = error.__cause__
        if isinstance(cause, docker.errors.APIError) and cause.status_code == 400:
            raise SandboxUnsupported(error.detail) from error
        raise
    return created


def no_runtime(runtime: str) -> str:
    """Return what to do about a container runtime that Docker does not have."""
    return (
        f"Container runtime '{runtime}' is not available to Docker "
        "(for gVisor, install runsc and register it with the Docker daemon)"
    )


def _image(image: str, *, pull: bool) -> dict[str, Any]:
    """Return what the engine says about an image, fetched if it is missing and that is allowed."""
    try:
        return _inspected(image)
    except ProviderError as error:
        if not isinstance(error.__cause__, docker.errors.NotFound):
            raise
    _fetch(image, pull=pull)
    return _inspected(image)


def remove(act: Callable[..., object], name: str, **options: Any) -> None:
    """Remove something of the engine's, unless it is gone or somebody else is removing it."""
    try:
        act(name, **options)
    except docker.errors.NotFound:
        pass
    except docker.errors.APIError as error:
        if error.status_code != 409:
            raise


def image_is_there(image: str) -> bool:
    """Say whether the engine has an image. Raises ProviderUnavailable and ProviderError."""
    try:
        _inspected(image)
    except ProviderError as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            return False
        raise
    return True


def _inspected(image: str) -> dict[str, Any]:
    with engine_errors():
        found: dict[str, Any] = client().inspect_image(image)  # type: ignore[no-untyped-call] # stubs
    return found


def _fetch(image: str, *, pull: bool) -> None:
    if not pull:
        raise SandboxUnsupported(
            f"The image {image} is not on the Docker host, and the option pull is 'never'"
        )
    repository, tag = docker.utils.parse_repository_tag(image)
    try:
        with engine_errors():
            # Read to its end, or the connection stays open.
            told = list(client().pull(repository, tag or "latest", stream=True, decode=True))
    except ProviderUnavailable:
        raise
    except ProviderError as error:
        raise SandboxUnsupported(f"The image {image} cannot be fetched: {error.detail}") from error
    if failed := [line["error"] for line in told if "error" in line]:
        raise SandboxUnsupported(f"The image {image} cannot be fetched: {failed[0]}")


class Frames:
    """Takes apart the engine's stream, in which a header of 8 bytes tells stdout from stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._header = b""
        self._stream: Stream = "stdout"
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; they may begin and end anywhere in a frame."""
        view = memoryview(data)
        while view:
            if not self._left:
                need = 8 - len(self._header)
                self._header += bytes(view[:need])
                view = view[need:]
                if len(self._header) < 8:
                    return
                kind, self._left = struct.unpack(">BxxxL", self._header)
                self._stream = "stderr" if kind == 2 else "stdout"
                self._header = b""
            part = view[: self._left]
            view = view[len(part) :]
            self._left -= len(part)
            self._output.feed(self._stream, bytes(part))


class ContainerProcess:
    """One command in a running container; a context manager that holds its connection."""

    def __init__(
        self,
        container: str,
        argv: Sequence[str],
        output: Output,
        *,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> None:
        self._container = container
        self._output = output
        self._stdin = stdin
        self._look_at, self._step = 0.0, 0.01
        self._over = False
        self.exit_code = UNKNOWN_EXIT
        with engine_errors(container):
            created = client().exec_create(
                container, list(argv), environment=dict(env or {}), stdin=stdin is not None
            )
        self._id: str = created["Id"]

    def __enter__(self) -> Self:
        with engine_errors(self._container):
            # Typed as what it is for; what it is depends on how the engine is reached.
            self._holder: Any = client().exec_start(self._id, socket=True)
        holder: Any = self._holder
        self._socket: socket.socket = getattr(holder, "_sock", holder)
        self._socket.setblocking(False)
        self._pump = self._pumped()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            # Closing the descriptor alone leaves the engine's end open while others hold it.
            self._socket.shutdown(socket.SHUT_RDWR)
        # The answer, where the SDK gives it away, closes what it has under it.
        getattr(self._holder, "_response", self._holder).close()

    def run(self, watch: Watch) -> Stop | None:
        """Carry its bytes until it ends (None) or has to stop (why)."""
        return self._pump.run(watch)

    def drain(self) -> None:
        """Take what it had still written when it was killed."""
        self._pump.drain()

    def _ended(self) -> bool:
        """Say whether the command's own process is gone; asks the engine ever less often."""
        now = time.monotonic()
        if not self._over and now >= self._look_at:
            self._look_at, self._step = now + self._step, min(1.0, self._step * 2)
            with engine_errors(self._container):
                state = client().exec_inspect(self._id)
            self._over = not state["Running"]
            if self._over and state["ExitCode"] is not None:
                self.exit_code = state["ExitCode"]
        return self._over

    def _pumped(self) -> Pump:
        frames = Frames(self._output)
        # Answering and the first output can arrive in one packet, and then the SDK's reader of the
        # answer holds both; from here on the socket is read directly.
        response = getattr(self._holder, "_response", None)
        early = response.raw._fp.fp.peek() if response is not None else b""
        frames.feed(early)
        inlet = Inlet(self._socket.fileno(), self._read, frames.feed)
        outlet = None
        if self._stdin is not None:
            if isinstance(self._socket, ssl.SSLSocket):
                raise SandboxUnsupported(
                    "A Docker Engine reached through TLS takes no stdin for commands"
                )
            close = partial(self._socket.shutdown, socket.SHUT_WR)
            outlet = Outlet(
                self._socket.fileno(), self._socket.send, close, memoryview(self._stdin)
            )
        return Pump([inlet], outlet, self._ended)

    def _read(self, size: int) -> bytes | None:
        try:
            data = self._socket.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            # The engine went away; looking at the command will tell how.
            data = b""
        if not data:
            self._look_at, self._step = 0.0, 0.01
        return data
