"""A gRPC server of a stand-in: keeps what it is asked, and fails as it is told to."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grpclib import GRPCError, Status
from grpclib.encoding.base import StatusDetailsCodecBase
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from tests.standins.wire import Record


@dataclass(frozen=True, kw_only=True)
class Called:
    """One call: the method's name, its first message, and the metadata."""

    line: str
    request: Any = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)


# Returns the reply, or None where it was streamed.
Method = Callable[..., Coroutine[Any, Any, Any]]


class RpcStandin(Record[Called]):
    """A vendor's gRPC services in a thread and a loop of their own, all at one address.

    A method that is not in `methods` is answered as a server does that does not know it. `reply` of
    a fault is the error to raise.
    """

    services: ClassVar[tuple[type, ...]]
    methods: ClassVar[Mapping[str, Method]]
    details: ClassVar[StatusDetailsCodecBase | None] = None

    def __init__(self) -> None:
        super().__init__()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._port = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, in a thread of its own."""
        self._thread.start()
        self.do(self._listen())

    async def _listen(self) -> None:
        served = [_served(service, self.serve) for service in self.services]
        self._server = _Server(served, status_details_codec=self.details)
        await self._server.start(sock=self._socket)

    def stop(self) -> None:
        """Stop listening, and break every connection there is."""
        if self._thread.is_alive():
            self.do(self._server.cut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def do[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Return what comes of something that is done in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def serve(self, name: str, stream: Any) -> None:
        """Answer one call."""
        called = Called(
            line=name, request=await stream.recv_message(), metadata=dict(stream.metadata)
        )
        self.asked.append(called)
        fault = self.fault(called)
        if fault:
            await asyncio.sleep(fault.delay)
            if fault.reply:
                raise fault.reply
        if name not in self.methods:
            raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not there")
        reply = await self.methods[name](self, called, stream)
        if fault and fault.lost:
            raise GRPCError(Status.UNAVAILABLE, "the connection was lost")
        if reply is not None:
            await stream.send_message(reply)


class _Server(Server):
    """Knows its connections."""

    def __init__(self, *services: Any, **settings: Any) -> None:
        super().__init__(*services, **settings)
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        protocol = super()._protocol_factory()
        self._protocols.append(protocol)
        return protocol

    async def cut(self) -> None:
        """Stop, whatever is being answered."""
        self.close()
        for protocol in self._protocols:
            if hasattr(protocol, "connection"):
                protocol.connection.close()
        await self.wait_closed()


def _served(service: type, serve: Callable[[str, Any], Coroutine[Any, Any, None]]) -> Any:
    """Return a service whose every method is answered by one function."""

    def method(name: str) -> Callable[[Any, Any], Coroutine[Any, Any, None]]:
        return lambda service, stream: serve(name, stream)

    names = getattr(service, "__abstractmethods__", ())
    return type(service.__name__, (service,), {name: method(name) for name in names})()


async def ready(file: int, *, to_write: bool = False) -> None:
    """Wait until a file, a pipe or a process, can be read or written, or has ended."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    (loop.add_writer if to_write else loop.add_reader)(file, event.set)
    try:
        await event.wait()
    finally:
        (loop.remove_writer if to_write else loop.remove_reader)(file)


async def poured(file: int, data: bytes) -> None:
    """Write all of it to a pipe. Raises BrokenPipeError."""
    os.set_blocking(file, False)
    left = memoryview(data)
    while left:
        await ready(file, to_write=True)
        left = left[os.write(file, left) :]
