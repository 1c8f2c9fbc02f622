"""Daytona: its control API, and the toolbox of each sandbox, at one address."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from tests.standins.place import Place
from tests.standins.wire import Asked, Refusal, Reply, Route, Standin, Wire, routed

STDOUT, STDERR = b"\x01\x01\x01", b"\x02\x02\x02"
_ACCEPT_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_CIDRS = 10
_SECRET_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
_HOST = re.compile(r"(\*\.)?([a-z0-9_-]+\.)*[a-z0-9_-]+")


@dataclass
class Session:
    """A session with its one command, whose output is kept line by line."""

    sandbox: str
    command: str = ""
    process: subprocess.Popen[bytes] | None = None
    log: list[bytes] = field(default_factory=list)
    code: int | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, prefix: bytes, line: bytes) -> None:
        """Keep one line; what the daemon's shell cannot hold is lost, and a line always ends."""
        with self.changed:
            self.log.append(prefix + line.replace(b"\0", b"").rstrip(b"\n") + b"\n")
            self.changed.notify_all()

    def end(self, code: int) -> None:
        """Tell those who follow that there is no more."""
        with self.changed:
            self.code = code
            self.changed.notify_all()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the session's shell and what is in its group."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


@dataclass
class Sandbox:
    """One sandbox as the vendor knows it."""

    id: str
    wanted: dict[str, Any]
    place: Place
    created: datetime
    state: str = "creating"
    looked_at: int = 0
    sessions: dict[str, Session] = field(default_factory=dict)
    followers: list[Wire] = field(default_factory=list)


class Daytona(Standin):
    """The vendor's service; set its attributes to have it behave otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}
        self.variables = {"DAYTONA_API_KEY": "dtn_" + secrets.token_hex(20)}
        self.addresses = {"DAYTONA_API_URL": f"{self.url}/api"}
        self.created: list[dict[str, Any]] = []
        self.sandboxes: dict[str, Sandbox] = {}
        # Whether its plan lets sandboxes reach the internet whatever they were made with.
        self.reaches_internet = False
        self.has_python = True
        # Keys it takes; any, while there are none.
        self.keys: set[str] = set()
        self.snapshots: dict[str, str] = {}
        # What the organisation has it keep, by id, with the value that no answer holds.
        self.kept: dict[str, dict[str, Any]] = {}
        self.page = 100
        # What a new sandbox comes to, and how often it is looked at before.
        self.comes_to, self.looks = "started", 1
        self.can_pause = True
        self._lock = threading.RLock()

    @property
    def living(self) -> set[str]:
        """Return the ids of what has not been ended."""
        return set(self.sandboxes)

    def stop(self) -> None:
        """End all sandboxes and stop listening."""
        for one in list(self.sandboxes):
            self.lose(one)
        super().stop()

    def lose(self, sandbox_id: str) -> None:
        """End a sandbox; what runs in it is cut off without a word."""
        with self._lock:
            sandbox = self.sandboxes.pop(sandbox_id, None)
        if sandbox is not None:
            self._cut(sandbox)
            for session in sandbox.sessions.values():
                session.kill()
            sandbox.place.end()

    def cut(self) -> None:
        """Break the connections of all that runs; it runs on."""
        for sandbox in self.sandboxes.values():
            self._cut(sandbox)

    def _cut(self, sandbox: Sandbox) -> None:
        for wire in sandbox.followers:
            wire.cut()

    def respond(self, asked: Asked, wire: Wire) -> Reply | None:
        """Answer as the control API does, or as a toolbox, told apart by the path."""
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if not key or (self.keys and key not in self.keys):
            raise _refused(401, f"Invalid credentials {key}")
        for route, found in routed(self._control, asked):
            return route(self, asked, *found)
        for route, found in routed(self._toolbox, asked):
            sandbox, *rest = found
            return route(self, self._running(sandbox), asked, wire, *rest)
        raise _refused(404, f"Cannot {asked.line}")

    def _found(self, name: str) -> Sandbox:
        for sandbox in self.sandboxes.values():
            if name in (sandbox.id, sandbox.wanted.get("name")):
                return sandbox
        raise _refused(404, f"Sandbox with ID or name {name} not found")

    def _running(self, name: str) -> Sandbox:
        sandbox = self._found(name)
        if sandbox.state != "started":
            raise _refused(400, "failed to get runner info: sandbox is not started")
        return sandbox

    # The control API

    def _create(self, asked: Asked) -> Reply:
        wanted = asked.json
        with self._lock:
            if any(one.wanted.get("name") == wanted.get("name") for one in self.sandboxes.values()):
                raise _refused(409, f"Sandbox with name {wanted['name']} already exists")
            return self._created(asked, wanted)

    def _created(self, asked: Asked, wanted: dict[str, Any]) -> Reply:
        snapshot = wanted.get("snapshot")
        if snapshot and snapshot not in self.snapshots:
            raise _refused(400, f"Snapshot {snapshot} not found")
        network = _network(wanted)
        wanted = {**wanted, "env": {**(wanted.get("env") or {}), **self._placeholders(wanted)}}
        place = Place(user="root", uid=0, has_python=self.has_python, network=self._reach(network))
        sandbox = Sandbox(
            id=secrets.token_hex(16), wanted=wanted, place=place, created=datetime.now(UTC)
        )
        self.sandboxes[sandbox.id] = sandbox
        built = (wanted.get("buildInfo") or {}).get("dockerfileContent", "")
        self.created.append(
            {
                "id": sandbox.id,
                "image": snapshot or built.removeprefix("FROM ").strip(),
                "network": {"all": "on", "nothing": "off"}.get(str(network), network),
                "ephemeral": wanted.get("autoDeleteInterval") == 0,
                "key": asked.headers["authorization"].removeprefix("Bearer "),
                "env": wanted.get("env"),
                "labels": wanted.get("labels"),
                "public": wanted.get("public"),
                "stops_after": wanted.get("autoStopInterval"),
                "minutes": wanted.get("ttlMinutes"),
                "target": wanted.get("target"),
                "cpu": wanted.get("cpu"),
                "memory": wanted.get("memory"),
            }
        )
        return Reply(status=200, body=_told(sandbox, self.url))

    def _reach(self, network: str | list[str]) -> str | list[str]:
        return "all" if self.reaches_internet else network

    def _info(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        if sandbox.state == "creating":
            sandbox.looked_at += 1
            if sandbox.looked_at > self.looks:
                sandbox.state = self.comes_to
        return Reply(body=_told(sandbox, self.url))

    def _list(self, asked: Asked) -> Reply:
        labels = json.loads(asked.query.get("labels", "{}"))
        found = [
            sandbox
            for sandbox in self.sandboxes.values()
            if all(sandbox.wanted["labels"].get(name) == value for name, value in labels.items())
        ]
        first = int(asked.query.get("cursor", "0"))
        last = first + min(self.page, int(asked.query.get("limit", "100")))
        items = [
            {
                name: value
                for name, value in _told(one, self.url).items()
                if name not in ("env", "kvm")
            }
            for one in found[first:last]
        ]
        return Reply(body={"items": items, "nextCursor": str(last) if last < len(found) else None})

    def _delete(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        told = {**_told(sandbox, self.url), "state": "destroying"}
        self.lose(sandbox.id)
        return Reply(body=told)

    def _pause(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        if not self.can_pause:
            raise _refused(400, "Sandboxes of this class cannot be paused")
        self._cut(sandbox)
        for session in sandbox.sessions.values():
            session.kill(signal.SIGSTOP)
        sandbox.state = "paused"
        return Reply(body=_told(sandbox, self.url))

    def _start(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        for session in sandbox.sessions.values():
            session.kill(signal.SIGCONT)
        sandbox.state = "started"
        return Reply(body=_told(sandbox, self.url))

    def _snapshot(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        self.snapshots[asked.json["name"]] = sandbox.id
        return Reply(body=_told(sandbox, self.url))

    def _set_network(self, asked: Asked, name: str) -> Reply:
        sandbox = self._found(name)
        # What is not said is cleared.
        said = {"networkBlockAll": False, **asked.json}
        sandbox.wanted = {**sandbox.wanted, "domainAllowList": None, **said}
        sandbox.place.allow(self._reach(_network(sandbox.wanted)))
        return Reply(body=_told(sandbox, self.url))

    def _ttl(self, asked: Asked, name: str, minutes: str) -> Reply:
        sandbox = self._found(name)
        sandbox.wanted["ttlMinutes"] = int(minutes)
        return Reply(body=_told(sandbox, self.url))

    def _placeholders(self, wanted: dict[str, Any]) -> dict[str, str]:
        """Return the variables of secrets, which hold no value; raises Refusal for an unknown one."""
        held = {one["name"]: one["placeholder"] for one in self.kept.values()}
        named = [pair for one in wanted.get("secrets") or [] for pair in one.items()]
        for _, name in named:
            if name not in held:
                raise _refused(400, f"Secret {name} not found")
        return {variable: held[name] for variable, name in named}

    def _keep_secret(self, asked: Asked) -> Reply:
        wanted = asked.json
        if not _SECRET_NAME.fullmatch(wanted["name"]):
            raise _refused(400, f"Invalid secret name {wanted['name']}")
        if any(one["name"] == wanted["name"] for one in self.kept.values()):
            raise _refused(409, f"Secret {wanted['name']} already exists")
        for host in wanted.get("hosts") or []:
            if not _HOST.fullmatch(host):
                raise _refused(400, f"Invalid host {host}")
        moment, key = datetime.now(UTC).isoformat(), secrets.token_hex(8)
        told = {"createdAt": moment, "updatedAt": moment, "hosts": [], **wanted, "id": key}
        self.kept[key] = {**told, "placeholder": f"dtn_secret_{secrets.token_hex(8)}"}
        return Reply(status=201, body=_shown(self.kept[key]))

    def _list_secrets(self, asked: Asked) -> Reply:
        part = asked.query.get("name", "")
        found = [_shown(one) for one in self.kept.values() if part in one["name"]]
        return Reply(body={"items": found, "total": len(found), "nextCursor": None})

    def _forget_secret(self, asked: Asked, key: str) -> Reply:
        if self.kept.pop(key, None) is None:
            raise _refused(404, "Secret not found")
        return Reply(status=204)

    _control: ClassVar[Mapping[str, Route]] = {
        "POST /api/sandbox": _create,
        "GET /api/sandbox": _list,
        "GET /api/sandbox/([^/]+)": _info,
        "DELETE /api/sandbox/([^/]+)": _delete,
        "POST /api/sandbox/([^/]+)/pause": _pause,
        "POST /api/sandbox/([^/]+)/start": _start,
        "POST /api/sandbox/([^/]+)/snapshot": _snapshot,
        "POST /api/sandbox/([^/]+)/network-settings": _set_network,
        "POST /api/sandbox/([^/]+)/ttl/([0-9]+)": _ttl,
        "POST /api/secret": _keep_secret,
        "GET /api/secret/paginated": _list_secrets,
        "DELETE /api/secret/([^/]+)": _forget_secret,
    }

    # The toolbox

    def _session(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        sandbox.sessions[asked.json["sessionId"]] = Session(sandbox.id)
        return Reply(status=201)

    def _open(self, sandbox: Sandbox, name: str) -> Session:
        if name not in sandbox.sessions:
            raise _refused(404, "session not found", source="DAYTONA_DAEMON")
        return sandbox.sessions[name]

    def _run(self, sandbox: Sandbox, asked: Asked, wire: Wire, name: str) -> Reply:
        session = self._open(sandbox, name)
        if not asked.json.get("runAsync"):
            raise _refused(400, "this stand-in runs session commands asynchronously only")
        session.command = asked.json["command"]
        script = sandbox.place.root / "tmp" / f"session-{name}"
        script.write_text(session.command)
        # A session's stdin stays open: a command that reads it waits for ever.
        session.process = sandbox.place.start(
            ["/bin/sh", f"/tmp/{script.name}"],
            env=sandbox.wanted.get("env") or {},
            cwd=sandbox.place.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        threading.Thread(target=_keep, args=(session,), daemon=True).start()
        return Reply(status=202, body={"cmdId": "command"})

    def _command(self, sandbox: Sandbox, asked: Asked, wire: Wire, name: str) -> Reply:
        session = self._open(sandbox, name)
        code = {} if session.code is None else {"exitCode": session.code}
        return Reply(body={"id": "command", "command": session.command, **code})

    def _logs(self, sandbox: Sandbox, asked: Asked, wire: Wire, name: str) -> Reply | None:
        session = self._open(sandbox, name)
        if asked.headers.get("upgrade", "").lower() != "websocket":
            text = b"".join(session.log).decode(errors="replace")
            return Reply(body={"output": text, "stdout": text, "stderr": ""})
        _accept(asked, wire)
        sandbox.followers.append(wire)
        threading.Thread(target=_ponged, args=(wire,), daemon=True).start()
        with suppress(OSError):
            _follow(session, wire)
        sandbox.followers.remove(wire)
        wire.cut()
        return None

    def _close(self, sandbox: Sandbox, asked: Asked, wire: Wire, name: str) -> Reply:
        self._open(sandbox, name).kill()
        del sandbox.sessions[name]
        return Reply(status=204)

    def _upload(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        parts = _parts(asked)
        for name, data in parts.items():
            if path := re.fullmatch(r"files\[(\d+)\]\.path", name):
                target = data.decode()
                script = 'mkdir -p -- "$(dirname -- "$0")" && exec cat > "$0"'
                content = parts[f"files[{path[1]}].file"]
                if wrong := _ran(sandbox, ["sh", "-c", script, target], content)[2]:
                    raise Refusal(400, {"errors": [wrong.decode(errors="replace")]})
        return Reply(body={})

    def _download(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        boundary, body = secrets.token_hex(8), bytearray()
        for path in asked.json["paths"]:
            code, data, _ = _ran(sandbox, ["sh", "-c", '[ -f "$0" ] && exec cat -- "$0"', path])
            kind = "error" if code else "file"
            if code:
                wrong = {"message": f"{path}: no such file", "statusCode": 404}
                wrong |= {"code": "FILE_NOT_FOUND", "source": "DAYTONA_DAEMON"}
                data = json.dumps(wrong).encode()
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="{kind}"; filename="{path}"\r\n'
            head += f"Content-Type: application/{'json' if code else 'octet-stream'}\r\n\r\n"
            body += head.encode() + data + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return Reply(body=bytes(body), headers=headers)

    _toolbox: ClassVar[Mapping[str, Route]] = {
        "POST /toolbox/([^/]+)/process/session": _session,
        "POST /toolbox/([^/]+)/process/session/([^/]+)/exec": _run,
        "GET /toolbox/([^/]+)/process/session/([^/]+)/command/command": _command,
        "GET /toolbox/([^/]+)/process/session/([^/]+)/command/command/logs": _logs,
        "DELETE /toolbox/([^/]+)/process/session/([^/]+)": _close,
        "POST /toolbox/([^/]+)/files/bulk-upload": _upload,
        "POST /toolbox/([^/]+)/files/bulk-download": _download,
    }


def _shown(secret: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in secret.items() if name != "value"}


def _refused(status: int, message: str, source: str = "DAYTONA_API") -> Refusal:
    return Refusal(status, {"statusCode": status, "message": message, "source": source})


def _network(wanted: dict[str, Any]) -> str | list[str]:
    """Return what may be reached; raises Refusal for lists the vendor does not take."""
    if wanted.get("networkBlockAll"):
        return "nothing"
    cidrs = [one for one in (wanted.get("networkAllowList") or "").split(",") if one]
    if len(cidrs) > _MOST_CIDRS:
        raise _refused(400, f"Network allow list cannot contain more than {_MOST_CIDRS} networks")
    hosts = [one for one in (wanted.get("domainAllowList") or "").split(",") if one]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise _refused(400, f"Invalid domain {host}")
    return hosts or ("nothing" if cidrs else "all")


def _told(sandbox: Sandbox, url: str) -> dict[str, Any]:
    wanted = sandbox.wanted
    return {
        "id": sandbox.id,
        "organizationId": "org",
        "name": wanted.get("name") or sandbox.id,
        "user": "root",
        "env": wanted.get("env") or {},
        "labels": wanted.get("labels") or {},
        "public": bool(wanted.get("public")),
        "networkBlockAll": bool(wanted.get("networkBlockAll")),
        "domainAllowList": wanted.get("domainAllowList"),
        "kvm": False,
        "target": wanted.get("target") or "us",
        "cpu": wanted.get("cpu") or 1,
        "gpu": 0,
        "memory": wanted.get("memory") or 1,
        "disk": 3,
        "state": sandbox.state,
        "errorReason": "the image could not be pulled" if sandbox.state == "build_failed" else None,
        "toolboxProxyUrl": f"{url}/toolbox",
        "createdAt": sandbox.created.isoformat(),
    }


def _keep(session: Session) -> None:
    """Keep a command's output line by line, and its end when its own process is over."""
    process = session.process
    assert process is not None

    def carry(prefix: bytes, pipe: Any) -> None:
        for line in pipe:
            session.add(prefix, line)
        pipe.close()

    carriers = [
        threading.Thread(target=carry, args=(STDOUT, process.stdout), daemon=True),
        threading.Thread(target=carry, args=(STDERR, process.stderr), daemon=True),
    ]
    for carrier in carriers:
        carrier.start()
    code = process.wait()
    for carrier in carriers:
        carrier.join(0.2)
    if process.stdin is not None:
        process.stdin.close()
    session.end(128 - code if code < 0 else code)


# A WebSocket, as far as a log needs one


def _accept(asked: Asked, wire: Wire) -> None:
    key = asked.headers["sec-websocket-key"] + _ACCEPT_KEY
    wire.send_response(101)
    wire.send_header("Upgrade", "websocket")
    wire.send_header("Connection", "Upgrade")
    digest = hashlib.sha1(key.encode()).digest()
    wire.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
    wire.end_headers()
    wire.close_connection = True


def _frame(kind: int, data: bytes) -> bytes:
    if len(data) < 126:
        return struct.pack(">BB", 0x80 | kind, len(data)) + data
    if len(data) < 65536:
        return struct.pack(">BBH", 0x80 | kind, 126, len(data)) + data
    return struct.pack(">BBQ", 0x80 | kind, 127, len(data)) + data


def _follow(session: Session, wire: Wire) -> None:
    """Send a log as it grows; a tidy close is the end of it."""
    sent = 0
    while True:
        with session.changed:
            if len(session.log) == sent and session.code is None:
                session.changed.wait(1)
            lines, over = session.log[sent:], session.code is not None
        sent += len(lines)
        for line in lines:
            wire.connection.sendall(_frame(2, line))
        if over and not lines:
            wire.connection.sendall(_frame(8, struct.pack(">H", 1000)))
            # The other end closes, too; breaking off first could lose what is on its way.
            time.sleep(0.02)
            return


def _ponged(wire: Wire) -> None:
    """Answer pings until the other end closes."""
    # A file that is closed while somebody reads from it raises what its buffer does.
    with suppress(OSError, ValueError):
        while head := wire.rfile.read(2):
            size = head[1] & 0x7F
            mask = wire.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(wire.rfile.read(size)))
            if head[0] & 0x0F == 9:
                wire.connection.sendall(_frame(10, data))


def _parts(asked: Asked) -> dict[str, bytes]:
    """Return the parts of a form by their names."""
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    found = {}
    for part in asked.body.split(b"--" + boundary)[1:-1]:
        head, _, data = part.partition(b"\r\n\r\n")
        if name := re.search(rb'name="([^"]+)"', head):
            found[name[1].decode()] = data[:-2]
    return found


def _ran(sandbox: Sandbox, argv: list[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    process = sandbox.place.start(
        argv, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    stdout, stderr = process.communicate(stdin)
    return process.returncode, stdout, stderr


def start() -> Daytona:
    """Return the vendor, listening. Raises OSError where no sandbox can be made."""
    vendor = Daytona()
    vendor.start()
    return vendor
