"""E2B: its control API, and envd inside each sandbox, at one address."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shlex
import signal
import struct
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote

from tests.standins.place import Place
from tests.standins.wire import Asked, Refusal, Reply, Route, Standin, Wire, routed

ENVD = "0.6.7"
# What the vendor allows an account without a plan.
LONGEST_SECONDS = 3600
ALL = "0.0.0.0/0"
_READ_BYTES = 32 * 1024


@dataclass
class Sandbox:
    """One sandbox as the vendor knows it."""

    id: str
    template: str
    place: Place
    wanted: dict[str, Any]
    started: datetime
    end_at: datetime
    state: str = "running"
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    running: dict[int, Running] = field(default_factory=dict)
    timer: threading.Timer | None = None


@dataclass
class Running:
    """A command and the connection its output goes to."""

    process: subprocess.Popen[bytes]
    wire: Wire
    config: dict[str, Any]
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_heard: bool = True
    is_over: threading.Event = field(default_factory=threading.Event)

    def tell(self, message: dict[str, Any], flag: int = 0) -> None:
        """Send one message; where nobody listens any more, the command goes on all the same."""
        data = json.dumps(message).encode()
        with self.lock:
            if self.is_heard:
                try:
                    self.wire.send(struct.pack(">BI", flag, len(data)) + data)
                except OSError:
                    self.is_heard = False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal the command and what is still in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class E2B(Standin):
    """The vendor's service; set its attributes to have it behave otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}
        self.variables = {"E2B_API_KEY": "e2b_" + secrets.token_hex(20)}
        self.addresses = {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}
        self.created: list[dict[str, Any]] = []
        self.sandboxes: dict[str, Sandbox] = {}
        # Whether its plan lets sandboxes reach the internet whatever they were made with.
        self.reaches_internet = False
        self.has_python = True
        # Keys it takes; any, while there are none.
        self.keys: set[str] = set()
        self.templates = {"base": "base"}
        self.page = 100
        self.build_status = "ready"
        self._builds: dict[str, str] = {}
        self._replies: dict[str, Reply] = {}
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
        if sandbox is None:
            return
        if sandbox.timer:
            sandbox.timer.cancel()
        cut = list(sandbox.running.values())
        for running in cut:
            running.is_heard = False
            running.wire.cut()
            running.kill()
        sandbox.place.end()
        for running in cut:
            running.is_over.wait(5)

    def cut(self) -> None:
        """Break the connections of all that runs; it runs on."""
        for sandbox in self.sandboxes.values():
            for running in list(sandbox.running.values()):
                running.is_heard = False
                running.wire.cut()

    def respond(self, asked: Asked, wire: Wire) -> Reply | None:
        """Answer as the control API does, or as envd, told apart by the path."""
        data = asked.path.startswith(("/process.", "/filesystem.", "/files", "/health"))
        if not data:
            self._authorize(asked)
        for route, found in routed(self._data if data else self._control, asked):
            if data:
                return route(self, self._addressed(asked), asked, wire)
            return route(self, asked, *found)
        raise Refusal(404, {"code": 404, "message": f"no route {asked.line}"})

    def _authorize(self, asked: Asked) -> None:
        key = asked.headers.get("x-api-key", "")
        if not key or (self.keys and key not in self.keys):
            raise _refused(401, f"Invalid API key {key}")

    def _addressed(self, asked: Asked) -> Sandbox:
        """Return whose envd is asked; the proxy in front answers for one that is not running."""
        name = asked.headers.get("e2b-sandbox-id", "")
        sandbox = self.sandboxes.get(name)
        if sandbox is None or sandbox.state != "running":
            message = f"The sandbox {name} was not found"
            raise Refusal(502, {"sandboxId": name, "message": message, "code": 502})
        if asked.headers.get("x-access-token") != sandbox.token:
            raise Refusal(401, {"code": "unauthenticated", "message": "unauthorized access"})
        return sandbox

    def _found(self, sandbox_id: str) -> Sandbox:
        if sandbox_id not in self.sandboxes:
            raise _refused(404, f"sandbox {sandbox_id} not found")
        return self.sandboxes[sandbox_id]

    # The control API

    def _create(self, asked: Asked) -> Reply:
        key = asked.headers.get("idempotency-key", "")
        with self._lock:
            if key and key in self._replies:
                return self._replies[key]
            reply = self._created(asked)
            if key:
                self._replies[key] = reply
            return reply

    def _created(self, asked: Asked) -> Reply:
        wanted = asked.json
        template = wanted["templateID"]
        if template not in self.templates:
            raise _refused(404, f"template '{template}' not found")
        lifetime = wanted.get("timeout", 15)
        _check_lifetime(lifetime)
        network = _network(wanted.get("network") or {}, wanted.get("allow_internet_access"))
        place = Place(
            user="user", uid=1000, has_python=self.has_python, network=self._reach(network)
        )
        started = datetime.now(UTC)
        sandbox = Sandbox(
            id=f"i{secrets.token_hex(10)}",
            template=template,
            place=place,
            wanted=wanted,
            started=started,
            end_at=started,
        )
        self.sandboxes[sandbox.id] = sandbox
        self._lives(sandbox, lifetime)
        self.created.append(
            {
                "id": sandbox.id,
                "image": self.templates[template],
                "network": {"all": "on", "nothing": "off"}.get(str(network), network),
                "lifetime": lifetime,
                "key": asked.headers["x-api-key"],
                "env": wanted.get("envVars", {}),
                "metadata": wanted.get("metadata", {}),
                "rules": (wanted.get("network") or {}).get("rules"),
                "public": (wanted.get("network") or {}).get("allowPublicTraffic", True),
                "auto_resume": wanted.get("autoResume"),
            }
        )
        return Reply(status=201, body=_handed_out(sandbox))

    def _reach(self, network: str | list[str]) -> str | list[str]:
        return "all" if self.reaches_internet else network

    def _lives(self, sandbox: Sandbox, seconds: float) -> None:
        if sandbox.timer:
            sandbox.timer.cancel()
        sandbox.end_at = datetime.now(UTC) + timedelta(seconds=seconds)
        sandbox.timer = threading.Timer(seconds, self.lose, [sandbox.id])
        sandbox.timer.daemon = True
        sandbox.timer.start()

    def _info(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox = self._found(sandbox_id)
        lifecycle = {"autoResume": False, "onTimeout": "kill"}
        return Reply(body={**_listed(sandbox), "domain": None, "lifecycle": lifecycle})

    def _list(self, asked: Asked) -> Reply:
        # The labels are a query of their own inside the query, quoted once more.
        labels = [
            (unquote(name), unquote(value))
            for name, value in parse_qsl(asked.query.get("metadata", ""))
        ]
        found = [
            sandbox
            for sandbox in self.sandboxes.values()
            if all(sandbox.wanted["metadata"].get(name) == value for name, value in labels)
        ]
        first = int(asked.query.get("nextToken", "0"))
        last = first + min(self.page, int(asked.query.get("limit", "100")))
        headers = {"x-next-token": str(last)} if last < len(found) else {}
        return Reply(body=[_listed(one) for one in found[first:last]], headers=headers)

    def _kill(self, asked: Asked, sandbox_id: str) -> Reply:
        self._found(sandbox_id)
        self.lose(sandbox_id)
        return Reply(status=204)

    def _timeout(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox, seconds = self._found(sandbox_id), asked.json["timeout"]
        _check_lifetime(seconds)
        self._lives(sandbox, seconds)
        return Reply(status=204)

    def _set_network(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox, wanted = self._found(sandbox_id), asked.json
        network = _network(wanted, wanted.get("allow_internet_access"))
        sandbox.wanted = {**sandbox.wanted, "network": wanted}
        sandbox.place.allow(self._reach(network))
        return Reply(status=204)

    def _pause(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox = self._found(sandbox_id)
        if sandbox.state == "paused":
            raise _refused(409, "Sandbox is already paused")
        sandbox.state = "paused"
        for running in sandbox.running.values():
            running.kill(signal.SIGSTOP)
            running.is_heard = False
            running.wire.cut()
        return Reply(status=204)

    def _connect(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox = self._found(sandbox_id)
        seconds, was = asked.json.get("timeout", 15), sandbox.state
        _check_lifetime(seconds)
        left = (sandbox.end_at - datetime.now(UTC)).total_seconds()
        # A running sandbox is given more time, never less.
        if was == "paused" or seconds > left:
            self._lives(sandbox, seconds)
        sandbox.state = "running"
        for running in sandbox.running.values():
            running.kill(signal.SIGCONT)
        return Reply(status=201 if was == "paused" else 200, body=_handed_out(sandbox))

    def _snapshot(self, asked: Asked, sandbox_id: str) -> Reply:
        sandbox = self._found(sandbox_id)
        name = f"snap{secrets.token_hex(8)}"
        self.templates[name] = sandbox.template
        return Reply(status=201, body={"snapshotID": name, "names": [name]})

    def _alias(self, asked: Asked, name: str) -> Reply:
        if name not in self.templates:
            raise _refused(404, f"template alias '{name}' not found")
        return Reply(body={"templateID": name, "public": False})

    def _template(self, asked: Asked) -> Reply:
        name, build = asked.json["name"], secrets.token_hex(8)
        self._builds[build] = name
        body = {"templateID": name, "buildID": build, "public": False, "names": [name]}
        return Reply(status=202, body={**body, "tags": [], "aliases": [name]})

    def _build(self, asked: Asked, template: str, build: str) -> Reply:
        if self._builds.get(build) != template:
            raise _refused(404, "build not found")
        if self.build_status == "ready":
            self.templates[template] = asked.json["fromImage"]
        return Reply(status=202, body={})

    def _built(self, asked: Asked, template: str, build: str) -> Reply:
        # The log is read from an offset until there is no more of it.
        lines = ["pulling", "unpacking"][int(asked.query.get("logsOffset", "0")) :]
        now = datetime.now(UTC).isoformat()
        entries = [{"timestamp": now, "message": line, "level": "info"} for line in lines]
        body = {"templateID": template, "buildID": build, "status": self.build_status}
        reason = {"reason": {"message": "the image was not found in its registry"}}
        failed = self.build_status == "error"
        return Reply(
            body={**body, "logs": lines, "logEntries": entries, **(reason if failed else {})}
        )

    _control: ClassVar[Mapping[str, Route]] = {
        "POST /v2/sandboxes": _create,
        "GET /v2/sandboxes": _list,
        "GET /sandboxes/([^/]+)": _info,
        "DELETE /sandboxes/([^/]+)": _kill,
        "POST /sandboxes/([^/]+)/timeout": _timeout,
        "PUT /sandboxes/([^/]+)/network": _set_network,
        "POST /sandboxes/([^/]+)/pause": _pause,
        "POST /v2/sandboxes/([^/]+)/connect": _connect,
        "POST /sandboxes/([^/]+)/snapshots": _snapshot,
        "GET /templates/aliases/(.+)": _alias,
        "POST /v3/templates": _template,
        "POST /v2/templates/(.+)/builds/([^/]+)": _build,
        "GET /templates/(.+)/builds/([^/]+)/status": _built,
    }

    # envd

    def _health(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        return Reply(status=204)

    def _start(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> None:
        _, size = struct.unpack_from(">BI", asked.body)
        message = json.loads(asked.body[5 : 5 + size])
        config = message["process"]
        env = {**sandbox.wanted.get("envVars", {}), **config.get("envs", {})}
        process = sandbox.place.start(
            [config["cmd"], *config["args"]],
            env=env,
            cwd=config.get("cwd") or sandbox.place.home,
            stdin=subprocess.PIPE if message.get("stdin") else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running = Running(process, wire, config)
        sandbox.running[process.pid] = running
        limit = asked.headers.get("connect-timeout-ms")
        timer = threading.Timer(int(limit) / 1000, running.kill) if limit else None
        if timer:
            timer.daemon = True
            timer.start()
        with suppress(OSError):
            wire.begin("application/connect+json")
        running.tell({"event": {"start": {"pid": process.pid}}})
        self._listen(running)
        if timer:
            timer.cancel()
        sandbox.running.pop(process.pid, None)
        running.is_over.set()
        running.tell({"event": {"end": _ending(process.returncode)}})
        running.tell({}, flag=2)
        if running.is_heard:
            wire.send(b"")

    def _listen(self, running: Running) -> None:
        """Carry both streams until they are closed, and then wait for the process, as envd does."""
        process = running.process

        def carry(name: str) -> None:
            pipe = getattr(process, name)
            while data := os.read(pipe.fileno(), _READ_BYTES):
                text = base64.b64encode(data).decode()
                running.tell({"event": {"data": {name: text}}})
            pipe.close()

        carriers = [threading.Thread(target=carry, args=(name,)) for name in ("stdout", "stderr")]
        for carrier in carriers:
            carrier.daemon = True
            carrier.start()
        for carrier in carriers:
            carrier.join()
        process.wait()

    def _signal(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        running = sandbox.running.get(asked.json["process"].get("pid"))
        if running is None:
            raise Refusal(404, {"code": "not_found", "message": "process not found"})
        running.kill(getattr(signal, asked.json["signal"].removeprefix("SIGNAL_")))
        return Reply(body={})

    def _processes(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        listed = [{"pid": pid, "config": one.config} for pid, one in sandbox.running.items()]
        return Reply(body={"processes": listed})

    def _read(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        path = asked.query["path"]
        script = '[ -f "$0" ] || exit 44; exec cat -- "$0"'
        ran = _ran(sandbox, ["sh", "-c", script, path])
        if ran.returncode:
            raise _refused(404, f"path '{path}' does not exist")
        return Reply(body=ran.stdout)

    def _write(self, sandbox: Sandbox, asked: Asked, wire: Wire) -> Reply:
        path = asked.query["path"]
        if asked.headers.get("content-type") != "application/octet-stream":
            raise _refused(400, "this stand-in takes files as octet streams only")
        script = 'mkdir -p -- "$(dirname -- "$0")" && exec cat > "$0"'
        ran = _ran(sandbox, ["sh", "-c", script, path], asked.body)
        if ran.returncode:
            raise _refused(507 if b"No space" in ran.stderr else 500, ran.stderr.decode())
        return Reply(body=[{"name": path.rpartition("/")[2], "type": "file", "path": path}])

    _data: ClassVar[Mapping[str, Route]] = {
        "GET /health": _health,
        "POST /process.Process/Start": _start,
        "POST /process.Process/SendSignal": _signal,
        "POST /process.Process/List": _processes,
        "GET /files": _read,
        "POST /files": _write,
    }


def _refused(status: int, message: str) -> Refusal:
    return Refusal(status, {"code": status, "message": message})


def _check_lifetime(seconds: int) -> None:
    if seconds > LONGEST_SECONDS:
        raise _refused(400, f"Timeout cannot be greater than {LONGEST_SECONDS // 3600} hours")


def _network(wanted: dict[str, Any], internet: bool | None) -> str | list[str]:
    """Return what may be reached; raises Refusal for lists the vendor does not take."""
    allowed, denied = wanted.get("allowOut") or [], wanted.get("denyOut") or []
    if [one for one in denied if any(letter.isalpha() for letter in one)]:
        raise _refused(400, "domains are not allowed in deny out")
    for host, rules in (wanted.get("rules") or {}).items():
        headers = [rule["transform"]["headers"] for rule in rules]
        if not rules or any(not _is_header(one) for each in headers for one in each.items()):
            raise _refused(400, f"invalid rule for {host}")
    names = [one for one in allowed if any(letter.isalpha() for letter in one)]
    if names and ALL not in denied:
        raise _refused(400, f"when a domain is in allow out, deny out must have {ALL}")
    if names:
        return names
    return "nothing" if internet is False or ALL in denied else "all"


def _is_header(item: tuple[str, str]) -> bool:
    name, value = item
    return name.replace("-", "").isalnum() and value.isprintable()


def _handed_out(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.template,
        "sandboxID": sandbox.id,
        "clientID": "standin",
        "envdVersion": ENVD,
        "envdAccessToken": sandbox.token,
    }


def _listed(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.template,
        "sandboxID": sandbox.id,
        "clientID": "standin",
        "startedAt": sandbox.started.isoformat(),
        "endAt": sandbox.end_at.isoformat(),
        "envdVersion": ENVD,
        "cpuCount": 2,
        "memoryMB": 512,
        "diskSizeMB": 1024,
        "state": sandbox.state,
        "metadata": sandbox.wanted.get("metadata", {}),
    }


def _ending(code: int) -> dict[str, Any]:
    """Return how a process ended, in envd's words: -1 where a signal ended it."""
    if code < 0:
        return {"exitCode": -1, "exited": False, "status": f"signal: {signal.Signals(-code).name}"}
    # Zero is left out, as the encoding does with every default.
    return {**({"exitCode": code} if code else {}), "exited": True, "status": f"exit status {code}"}


def _ran(
    sandbox: Sandbox, argv: list[str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    process = sandbox.place.start(
        argv, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    stdout, stderr = process.communicate(stdin)
    return subprocess.CompletedProcess(shlex.join(argv), process.returncode, stdout, stderr)


def start() -> E2B:
    """Return the vendor, listening. Raises OSError where no sandbox can be made."""
    vendor = E2B()
    vendor.start()
    return vendor
