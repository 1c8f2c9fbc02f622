"""Vercel Sandbox: named sandboxes, their sessions, and commands whose output comes as NDJSON."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.standins.place import Place
from tests.standins.wire import Asked, Refusal, Reply, Route, Standin, Wire, routed

_READ_BYTES = 32 * 1024
# What an account without a plan may ask for, in milliseconds.
_LONGEST = 45 * 60 * 1000
# How long a sandbox lives of which nothing else was said, in milliseconds.
_LIFETIME = 5 * 60 * 1000


@dataclass
class Running:
    """A command, its output so far, and how it ended."""

    id: str
    session: str
    config: dict[str, Any]
    process: subprocess.Popen[bytes]
    log: list[dict[str, str]] = field(default_factory=list)
    code: int | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    written: int = 0

    def told(self) -> dict[str, Any]:
        """Return the command as the API tells it."""
        return {
            "id": self.id,
            "name": self.config["command"],
            "args": self.config.get("args") or [],
            "cwd": self.config.get("cwd") or "/",
            "sessionId": self.session,
            "exitCode": self.code,
            "startedAt": 0,
        }

    def add(self, line: dict[str, str]) -> None:
        """Keep one piece of output for those who follow."""
        with self.changed:
            self.log.append(line)
            self.changed.notify_all()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the command and what is in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@dataclass
class Sandbox:
    """One sandbox as the vendor knows it."""

    name: str
    wanted: dict[str, Any]
    place: Place
    session: str = field(default_factory=lambda: f"sbx_{secrets.token_hex(8)}")
    status: str = "pending"
    looked_at: int = 0
    ends_at: float = 0.0
    running: dict[str, Running] = field(default_factory=dict)
    followers: list[Wire] = field(default_factory=list)
    timer: threading.Timer | None = None


class Vercel(Standin):
    """The vendor's service; set its attributes to have it behave otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}
        self.variables = {
            "VERCEL_TOKEN": "vercel_" + secrets.token_hex(16),
            "VERCEL_TEAM_ID": "team_" + secrets.token_hex(8),
            "VERCEL_PROJECT_ID": "prj_" + secrets.token_hex(8),
        }
        self.addresses = {"VERCEL_API_URL": f"{self.url}/api"}
        self.created: list[dict[str, Any]] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.reaches_internet = False
        self.has_python = True
        # Tokens it takes; any, while there are none.
        self.keys: set[str] = set()
        self.page = 100
        self.comes_to, self.looks = "running", 1
        # Images it has; any, while there are none.
        self.images: set[str] = set()
        self._lock = threading.RLock()

    @property
    def living(self) -> set[str]:
        """Return the names of what has not been destroyed."""
        return set(self.sandboxes)

    def stop(self) -> None:
        """End all sandboxes and stop listening."""
        for one in list(self.sandboxes):
            self.lose(one)
        super().stop()

    def lose(self, name: str) -> None:
        """Destroy a sandbox; what runs in it is cut off without a word."""
        with self._lock:
            sandbox = self.sandboxes.pop(name, None)
        if sandbox is not None:
            self._halt(sandbox)
            sandbox.place.end()

    def _halt(self, sandbox: Sandbox) -> None:
        """Stop the current session, as at the end of its time."""
        sandbox.status = "stopped"
        if sandbox.timer:
            sandbox.timer.cancel()
        for wire in list(sandbox.followers):
            wire.cut()
        for running in sandbox.running.values():
            running.kill()

    def cut(self) -> None:
        """Break the connections of all that runs; it runs on."""
        for sandbox in self.sandboxes.values():
            for wire in list(sandbox.followers):
                wire.cut()

    def respond(self, asked: Asked, wire: Wire) -> Reply | None:
        """Answer as the API does."""
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if not token or (self.keys and token not in self.keys):
            raise _refused(403, "forbidden", f"Not authorized: {token}")
        if not asked.query.get("teamId"):
            raise _refused(400, "bad_request", "teamId is missing")
        for route, found in routed(self._routes, asked):
            return route(self, asked, wire, *found)
        raise _refused(404, "not_found", f"no route {asked.line}")

    def _found(self, name: str) -> Sandbox:
        if name not in self.sandboxes:
            raise _refused(404, "not_found", f"Sandbox {name} not found")
        return self.sandboxes[name]

    def _session(self, session: str) -> Sandbox:
        for sandbox in self.sandboxes.values():
            if sandbox.session == session:
                if sandbox.status != "running":
                    raise _refused(410, "sandbox_stopped", "The sandbox has stopped")
                return sandbox
        raise _refused(404, "not_found", f"Session {session} not found")

    def _create(self, asked: Asked, wire: Wire) -> Reply:
        # What is not asked for is as the vendor has it.
        wanted = {"timeout": _LIFETIME, "name": secrets.token_hex(8), **asked.json}
        image = wanted.get("image")
        if self.images and image and image not in self.images:
            raise _refused(400, "invalid_image", f"The image {image} is not in the registry")
        if wanted["timeout"] > _LONGEST:
            raise _refused(400, "bad_request", "timeout must be at most 2700000")
        if wanted["name"] in self.sandboxes:
            raise _refused(409, "conflict", f"Sandbox {wanted['name']} already exists")
        network = _network(wanted.get("networkPolicy"))
        reach = "all" if self.reaches_internet else network
        place = Place(user="vercel", uid=1000, has_python=self.has_python, network=reach)
        sandbox = Sandbox(name=wanted["name"], wanted=wanted, place=place)
        self.sandboxes[sandbox.name] = sandbox
        self._lives(sandbox, wanted["timeout"] / 1000)
        resources = wanted.get("resources") or {}
        self.created.append(
            {
                "name": sandbox.name,
                "image": image,
                "network": {"all": "allow-all", "nothing": "deny-all"}.get(str(network), network),
                "allow": (wanted.get("networkPolicy") or {}).get("allow"),
                "lifetime": wanted["timeout"] // 1000,
                "key": asked.headers["authorization"].removeprefix("Bearer "),
                "team": asked.query["teamId"],
                "project": wanted["projectId"],
                "env": wanted.get("env"),
                "tags": wanted.get("tags"),
                "persistent": wanted.get("persistent"),
                "ports": wanted.get("ports"),
                "vcpus": resources.get("vcpus"),
                "memory": resources.get("memory"),
            }
        )
        return Reply(status=200, body=_told(sandbox))

    def _lives(self, sandbox: Sandbox, seconds: float) -> None:
        if sandbox.timer:
            sandbox.timer.cancel()
        sandbox.ends_at = time.monotonic() + seconds
        sandbox.timer = threading.Timer(seconds, self._halt, [sandbox])
        sandbox.timer.daemon = True
        sandbox.timer.start()

    def _info(self, asked: Asked, wire: Wire, name: str) -> Reply:
        sandbox = self._found(name)
        if sandbox.status == "pending":
            sandbox.looked_at += 1
            if sandbox.looked_at >= self.looks:
                sandbox.status = self.comes_to
        elif sandbox.status == "stopped" and asked.query.get("resume") == "true":
            sandbox.status = "running"
        return Reply(body=_told(sandbox))

    def _list(self, asked: Asked, wire: Wire) -> Reply:
        name, _, value = asked.query.get("tags", "").partition(":")
        found = [
            sandbox
            for sandbox in self.sandboxes.values()
            if not name or (sandbox.wanted.get("tags") or {}).get(name) == value
        ]
        first = int(asked.query.get("cursor", "0"))
        last = first + min(self.page, int(asked.query.get("limit", "100")))
        pages = {"count": len(found), "next": str(last) if last < len(found) else None}
        listed = [_told(one)["sandbox"] for one in found[first:last]]
        return Reply(body={"sandboxes": listed, "pagination": pages})

    def _destroy(self, asked: Asked, wire: Wire, name: str) -> Reply:
        told = _told(self._found(name))
        self.lose(name)
        return Reply(body=told)

    def _update(self, asked: Asked, wire: Wire, name: str) -> Reply:
        sandbox = self._found(name)
        if "networkPolicy" in asked.json:
            network = _network(asked.json["networkPolicy"])
            sandbox.place.allow("all" if self.reaches_internet else network)
        return Reply(body=_told(sandbox))

    def _narrow(self, asked: Asked, wire: Wire, session: str) -> Reply:
        sandbox = self._session(session)
        network = _network(asked.json)
        sandbox.place.allow("all" if self.reaches_internet else network)
        return Reply(body={"session": _told(sandbox)["session"]})

    def _extend(self, asked: Asked, wire: Wire, session: str) -> Reply:
        sandbox = self._session(session)
        left = sandbox.ends_at - time.monotonic() + asked.json["duration"] / 1000
        if left * 1000 > _LONGEST:
            raise _refused(400, "bad_request", "the session may not live longer than 2700000")
        self._lives(sandbox, left)
        return Reply(body={"session": _told(sandbox)["session"]})

    def _run(self, asked: Asked, wire: Wire, session: str) -> Reply | None:
        sandbox, config = self._session(session), asked.json
        process = sandbox.place.start(
            [config["command"], *(config.get("args") or [])],
            env={**(sandbox.wanted.get("env") or {}), **(config.get("env") or {})},
            cwd=config.get("cwd") or sandbox.place.home,
            stdin=subprocess.PIPE if config.get("attachStdin") else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running = Running(f"cmd_{secrets.token_hex(8)}", session, config, process)
        sandbox.running[running.id] = running
        threading.Thread(target=_keep, args=(running,), daemon=True).start()
        if asked.query.get("wait") != "true":
            return Reply(body={"command": running.told()})
        self._followed(sandbox, running, wire, whole=True)
        return None

    def _followed(self, sandbox: Sandbox, running: Running, wire: Wire, *, whole: bool) -> None:
        """Send a command's output as it comes, between its beginning and its end if that is asked."""
        sandbox.followers.append(wire)
        with suppress(OSError):
            wire.begin("application/x-ndjson")
            if whole:
                _say(wire, {"command": {**running.told(), "exitCode": None}})
            sent = 0
            while True:
                with running.changed:
                    if len(running.log) == sent and running.code is None:
                        running.changed.wait(1)
                    lines, over = running.log[sent:], running.code is not None
                sent += len(lines)
                for line in lines:
                    _say(wire, line)
                if over and not lines:
                    break
            if whole:
                _say(wire, {"command": running.told()})
            wire.send(b"")
        sandbox.followers.remove(wire)

    def _command(self, asked: Asked, wire: Wire, session: str, command: str) -> Reply:
        running = self._session(session).running[command]
        with running.changed:
            while asked.query.get("wait") == "true" and running.code is None:
                running.changed.wait(1)
        return Reply(body={"command": running.told()})

    def _logs(self, asked: Asked, wire: Wire, session: str, command: str) -> None:
        sandbox = self._session(session)
        self._followed(sandbox, sandbox.running[command], wire, whole=False)

    def _stdin(self, asked: Asked, wire: Wire, session: str, command: str) -> Reply:
        running, said = self._session(session).running[command], asked.json
        pipe = running.process.stdin
        assert pipe is not None
        with suppress(OSError, ValueError):
            pipe.write(base64.b64decode(said.get("data", "")))
            pipe.flush()
        running.written += len(base64.b64decode(said.get("data", "")))
        if said.get("close"):
            with suppress(OSError):
                pipe.close()
        return Reply(body={"command": running.told(), "bytesWritten": running.written})

    def _kill(self, asked: Asked, wire: Wire, session: str, command: str) -> Reply:
        running = self._session(session).running[command]
        running.kill(asked.json["signal"])
        return Reply(body={"command": running.told()})

    def _read(self, asked: Asked, wire: Wire, session: str) -> Reply:
        sandbox, path = self._session(session), asked.json["path"]
        process = sandbox.place.start(
            ["cat", "--", path], env={}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        data, _ = process.communicate()
        if process.returncode:
            raise _refused(404, "not_found", f"{path} not found")
        return Reply(body=data)

    _routes: ClassVar[Mapping[str, Route]] = {
        "POST /api/v3/sandboxes": _create,
        "GET /api/v2/sandboxes": _list,
        "GET /api/v2/sandboxes/([^/]+)": _info,
        "DELETE /api/v2/sandboxes/([^/]+)": _destroy,
        "PATCH /api/v2/sandboxes/([^/]+)": _update,
        "POST /api/v2/sandboxes/sessions/([^/]+)/network-policy": _narrow,
        "POST /api/v2/sandboxes/sessions/([^/]+)/extend-timeout": _extend,
        "POST /api/v2/sandboxes/sessions/([^/]+)/cmd": _run,
        "GET /api/v2/sandboxes/sessions/([^/]+)/cmd/([^/]+)": _command,
        "GET /api/v2/sandboxes/sessions/([^/]+)/cmd/([^/]+)/logs": _logs,
        "POST /api/v2/sandboxes/sessions/([^/]+)/cmd/([^/]+)/stdin": _stdin,
        "POST /api/v2/sandboxes/sessions/([^/]+)/cmd/([^/]+)/kill": _kill,
        "POST /api/v2/sandboxes/sessions/([^/]+)/fs/read": _read,
    }


def _refused(status: int, code: str, message: str) -> Refusal:
    return Refusal(status, {"error": {"code": code, "message": message}})


def _network(policy: dict[str, Any] | None) -> str | list[str]:
    """Return what may be reached by a policy; without one, all."""
    policy = policy or {"mode": "allow-all"}
    if "mode" in policy:
        return {"deny-all": "nothing", "allow-all": "all"}[policy["mode"]]
    allow = policy.get("allow") or {}
    for host, rules in allow.items():
        for rule in rules:
            if not all(one.get("headers") for one in rule["transform"]):
                raise _refused(400, "bad_request", f"a transform for {host} needs headers")
    return "all" if "*" in allow else list(allow)


def _told(sandbox: Sandbox) -> dict[str, Any]:
    wanted = sandbox.wanted
    told = {
        "name": sandbox.name,
        "currentSessionId": sandbox.session,
        "status": sandbox.status,
        "persistent": wanted.get("persistent"),
        "tags": wanted.get("tags"),
        "projectId": wanted["projectId"],
        "createdAt": int(time.time() * 1000),
    }
    session = {"id": sandbox.session, "sourceSandboxName": sandbox.name, "status": sandbox.status}
    return {"sandbox": told, "session": {**session, "cwd": "/vercel/sandbox"}, "routes": []}


def _say(wire: Wire, record: dict[str, Any]) -> None:
    wire.send(json.dumps(record).encode() + b"\n")


def _keep(running: Running) -> None:
    """Keep a command's output as text, in which bytes that are none get lost."""

    def carry(name: str) -> None:
        pipe = getattr(running.process, name)
        while data := os.read(pipe.fileno(), _READ_BYTES):
            running.add({"stream": name, "data": data.decode(errors="replace")})
        pipe.close()

    carriers = [
        threading.Thread(target=carry, args=(name,), daemon=True) for name in ("stdout", "stderr")
    ]
    for carrier in carriers:
        carrier.start()
    code = running.process.wait()
    for carrier in carriers:
        carrier.join(0.2)
    if running.process.stdin is not None:
        with suppress(OSError):
            running.process.stdin.close()
    with running.changed:
        running.code = 128 - code if code < 0 else code
        running.changed.notify_all()


def start() -> Vercel:
    """Return the vendor, listening. Raises OSError where no sandbox can be made."""
    vendor = Vercel()
    vendor.start()
    return vendor
