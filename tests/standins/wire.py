"""An HTTP server of a stand-in: keeps what it is asked, and fails as it is told to."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request: its path is unquoted and without its query."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def line(self) -> str:
        """Return method and path."""
        return f"{self.method} {self.path}"

    @property
    def json(self) -> Any:
        """Return its body, read as JSON; an empty one is an empty object."""
        return json.loads(self.body or b"{}")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer; anything but bytes goes as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Fault:
    """What goes wrong with requests whose line matches, for so many of them.

    `reply` comes in place of the answer, `delay` (seconds) before it; with `lost`, what is asked
    is done, and the connection breaks instead of telling so.
    """

    line: str
    reply: Any = None
    delay: float = 0.0
    lost: bool = False
    times: int = 10**9


class Refusal(Exception):
    """Answered in place of what was asked."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.reply = Reply(status=status, body=body, headers=headers or {})


class Wire(BaseHTTPRequestHandler):
    """One connection, which may carry many requests."""

    protocol_version = "HTTP/1.1"
    # Small answers in several writes would otherwise wait for each other.
    disable_nagle_algorithm = True
    server: Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        asked = Asked(
            method=self.command,
            path=unquote(parts.path),
            query={name: values[-1] for name, values in parse_qs(parts.query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._body(),
        )
        self.server.standin.asked.append(asked)
        fault = self.server.standin.fault(asked)
        time.sleep(fault.delay if fault else 0)
        try:
            reply = (fault and fault.reply) or self.server.standin.respond(asked, self)
        except Refusal as refusal:
            reply = refusal.reply
        except BrokenPipeError:
            raise
        except Exception:
            # A fault of the stand-in's own; a connection that just breaks would hide it.
            self.server.handle_error(self.request, self.client_address)
            raise
        if fault and fault.lost:
            self.close_connection = True
        elif reply is not None:
            self.answer(reply)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 -- the base class's names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def answer(self, reply: Reply) -> None:
        """Send a whole answer."""
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if not isinstance(reply.body, bytes):
            self.send_header("Content-Type", "application/json")
        if reply.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if reply.status != 204:
            self.wfile.write(data)

    def begin(self, content_type: str) -> None:
        """Begin an answer that is sent piece by piece with `send`."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, data: bytes) -> None:
        """Send one piece; an empty one is the end."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def cut(self) -> None:
        """Break the connection in the middle of whatever is sent."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def handle(self) -> None:
        """Serve until the other end is gone, however it goes."""
        self.server.connections.add(self.connection)
        with suppress(OSError):
            super().handle()
        self.server.connections.discard(self.connection)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """Listens on a free port of loopback."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    standin: Standin
    connections: set[socket.socket]


class Line(Protocol):
    """A request that is known by its line, such as method and path."""

    @property
    def line(self) -> str:
        """Return what patterns are compared with."""


class Record[A: Line]:
    """What a vendor was asked, and what is to go wrong."""

    def __init__(self) -> None:
        self.asked: list[A] = []
        self.faults: list[Fault] = []

    def fail(self, line: str, **what: Any) -> None:
        """Have requests go wrong whose line matches a pattern; see Fault."""
        self.faults.append(Fault(line=line, **what))

    def fault(self, asked: A) -> Fault | None:
        """Return what goes wrong with a request, and count it."""
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.line, asked.line):
                fault.times -= 1
                return fault
        return None

    def lines(self, pattern: str = "") -> list[str]:
        """Return the lines of all that was asked and matches."""
        return [asked.line for asked in self.asked if re.search(pattern, asked.line)]


class Standin(Record[Asked]):
    """A vendor's service: `respond` is its own; the rest is alike for all."""

    def __init__(self) -> None:
        super().__init__()
        self._server = Server(("127.0.0.1", 0), Wire)
        self._server.standin, self._server.connections = self, set()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Listen, in a thread of its own."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and break every connection there is."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._server.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def respond(self, asked: Asked, wire: Wire) -> Reply | None:
        """Return the answer, None where it was sent already. Raises Refusal."""
        raise NotImplementedError


Route = Callable[..., Reply | None]


def routed(routes: Mapping[str, Route], asked: Asked) -> Iterator[tuple[Route, tuple[str, ...]]]:
    """Yield the route whose pattern is a request's whole line, with what its groups matched."""
    for pattern, route in routes.items():
        if match := re.fullmatch(pattern, asked.line):
            yield route, match.groups()
            return
