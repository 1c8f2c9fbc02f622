"""What strangers write never becomes a line of the log of its own, nor colours a terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest

from tests.server import Server

FORGED = "timestamp='2030-01-01' level='critical' logger='omniweb' event='all is well'"
TEXTS = (f"a\n{FORGED}", f"a\r\n{FORGED}", f"a\r{FORGED}", f"a\u2028{FORGED}", f"a\x85{FORGED}")
ANSI = "\x1b[2J\x1b[1;31mred\x07"
LINE = re.compile(r"timestamp='20\d\d-\d\d-\d\dT[^']+' level='\w+' logger='[\w.]+' event=")
# What the command itself prints when it has started and when it stops.
GREETING = re.compile(r"|OmniWeb (listens on|has stopped).*|Sign in as .*")


@pytest.fixture
def server(server_new: Callable[..., Server]) -> Server:
    """A server that logs all it can, whose log is not shared."""
    one = server_new(settings={"OMNIWEB_LOG_LEVEL": "DEBUG"})
    one.environment_switch("local")
    return one.start()


def test_no_text_forges_a_line(server: Server) -> None:
    server.policy("free", "name: free\nmode: permissive\nrules: {}\n")
    token = server.agent_made("line-bot", "free")
    with server.client(token) as agent:
        for text in (*TEXTS, ANSI):
            speak(agent, text)
    unread(server)
    time.sleep(1)  # the worker logs, too
    log = server.log.read_text(encoding="utf-8")
    assert "event=" in log, "nothing was logged, so nothing was tried"
    wrong = [
        line for line in log.split("\n") if not LINE.match(line) and not GREETING.fullmatch(line)
    ]
    assert not wrong
    assert not [character for character in log if character != "\n" and not character.isprintable()]
    assert not re.search(r"^timestamp='2030", log, re.MULTILINE)


def speak(agent: httpx.Client, text: str) -> None:
    """Put a text everywhere an agent may write, so that some of it fails and is logged."""
    run = agent.post("/api/v1/runs", json={"title": text, "group": text}).json()["id"]
    executions = f"/api/v1/runs/{run}/executions"
    for command in (text, [text], ["true", text], f"sleep 60 # {text}"):
        agent.post(executions, json={"command": command, "cwd": text, "stdin": text})
        agent.post(executions, json={"command": command, "env": {"A": text}})
    agent.post(f"/api/v1/runs/{run}/messages", json={"role": "user", "text": text})
    for path in ("/api/v1/runs/{}/files", "/sandbox/v1/sessions/{}/files"):
        agent.put(path.format(run), params={"path": text}, content=text.encode())
        agent.get(path.format(run), params={"path": text + "/b"})
    for method in ("GET", "POST", "DELETE"):
        agent.request(method, f"/api/v1/{httpx.QueryParams({'a': text})}")
        agent.request(method, f"/{httpx.QueryParams({'a': text})}")
    agent.post("/sign-in", data={"login": text, "password": text})
    agent.post("/sandbox/v1/sessions", json={"manifest": {"image": text, "working_dir": text}})
    agent.post(f"/api/v1/runs/{run}/end", json={"reason": text})


def unread(server: Server) -> None:
    """Send what is no HTTP, no host of ours, and no WebSocket."""
    forged = FORGED.encode()
    end = b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    upgrade = b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nHost: 127.0.0.1\r\n\r\n"
    for request in (
        b"\n" + forged + end,
        b"GET /\x1b[31m HTTP/1.1" + end,
        b"GET / HTTP/1.1\r\nHost: evil.example\x1b[31m\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\n" + forged + end,
        b"GET /ws/live HTTP/1.1\r\nSec-WebSocket-Version: 7\x1b[31m" + upgrade,
        b"GET /nothing?a=%0A" + forged.replace(b" ", b"%20") + b" HTTP/1.1" + end,
    ):
        # Some of it is never answered.
        with suppress(OSError):
            server.raw(request, seconds=3)
