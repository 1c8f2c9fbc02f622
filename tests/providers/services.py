"""Sandbox services on this machine: one that keeps the protocol, and any that does not."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as the service saw it; `path` is as it was sent, with its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return its body, read as JSON."""
        return json.loads(self.body)

    @property
    def line(self) -> str:
        """Return method and path."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer; a dictionary goes as JSON."""

    status: int = 200
    body: bytes | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        """Return the body's bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Wire(BaseHTTPRequestHandler):
    """A connection; whoever answers may write to `wfile` itself, and then returns None."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = Asked(
            method=self.command,
            path=self.path,
            headers=dict(self.headers),
            body=self.rfile.read(length),
        )
        self.server.asked.append(asked)
        reply = self.server.respond(asked, self)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.status != 204:
            self.send_header("Content-Length", str(len(reply.data)))
        self.end_headers()
        self.wfile.write(reply.data)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 -- the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Keep quiet."""


Respond = Callable[[Asked, Wire], Reply | None]


class Listening(ThreadingHTTPServer):
    """A service at a port of its own, and all it was asked."""

    daemon_threads = True

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.asked: list[Asked] = []
        super().__init__(("127.0.0.1", 0), Wire)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def lines(self) -> list[str]:
        """Return method and path of everything it was asked."""
        return [asked.line for asked in self.asked]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is part of the tests."""


@contextmanager
def listening(respond: Respond) -> Iterator[Listening]:
    """Serve until the test is over."""
    with Listening(respond) as service:
        threading.Thread(target=service.serve_forever, args=(0.02,), daemon=True).start()
        yield service
        service.shutdown()


class Honest:
    """The five requests as the requirement document has them, with processes and a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sessions: dict[str, dict[str, Any]] = {}

    def __call__(self, asked: Asked, wire: Wire) -> Reply:
        """Answer one request."""
        if asked.line == "POST /sessions":
            return self._open(asked.json["manifest"])
        parts = urlsplit(asked.path)
        _, _, session, *rest = parts.path.split("/")
        if asked.method == "DELETE":
            return Reply(status=204 if self._sessions.pop(unquote(session), None) else 404)
        manifest = self._sessions.get(unquote(session))
        if manifest is None:
            return Reply(status=404, body=b"no such session")
        if rest == ["exec"]:
            return self._exec(manifest, asked.json)
        return self._file(asked, Path(parse_qs(parts.query)["path"][0]))

    def _open(self, manifest: dict[str, Any]) -> Reply:
        session = f"odd/id {len(self._sessions)}?#%"
        Path(manifest["working_dir"]).mkdir(parents=True, exist_ok=True)
        self._sessions[session] = manifest
        return Reply(status=201, body={"session_id": session})

    def _exec(self, manifest: dict[str, Any], body: dict[str, Any]) -> Reply:
        env = {"PATH": "/usr/bin:/bin"} | manifest["environment"] | body["env"]
        timed_out = False
        process = subprocess.Popen(
            body["command"],
            cwd=body["cwd"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(body["stdin"], timeout=body["timeout_seconds"])
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            timed_out = True
        result = {"exit_code": process.returncode, "stdout": out, "stderr": err}
        return Reply(body=result | {"timed_out": timed_out})

    def _file(self, asked: Asked, path: Path) -> Reply:
        if asked.method == "PUT":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(asked.body)
            return Reply(status=204)
        with suppress(FileNotFoundError):
            return Reply(body=path.read_bytes())
        return Reply(status=404, body={"detail": "no such file"})
