"""Installations seen from outside: agents that try again, people who decide, and how it all ended."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from omniweb.core.ids import uuid7
from tests.server import ROOT, Server

# Under these an agent is free, or asks a person about everything.
POLICIES = {
    "free": "name: free\nmode: permissive\nrules: {}\n",
    "asking": """
name: asking
mode: permissive
rules:
  ask:
    - {rule_id: ask_all, capability: process.exec, reason: Each command needs a person.}
""",
}
REST_SECONDS = 60
CHECK = "from tests.faults.whole import assert_whole; assert_whole()"
# How often an agent that got no answer asks again; the server counts it as gone after 20 s.
AGAIN_SECONDS = 21


def rest(server: Server, seconds: float = REST_SECONDS) -> None:
    """Wait until an installation has come to rest; fail with what is still wrong."""
    deadline = time.monotonic() + seconds
    while True:
        check = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", CHECK],
            cwd=ROOT,
            env=server.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if check.returncode == 0:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"{check.stderr}\n{server.log.read_text()[-4000:]}", pytrace=False)
        time.sleep(1)


def until[R](look: Callable[[], R], seconds: float = 30) -> R:
    """Return what `look` sees once it is true."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)
    return seen


class Word:
    """A command that shows that it ran: one word of its own in a file."""

    def __init__(self, folder: Path, then: str = "true") -> None:
        self.file = folder / "effects"
        self.word = uuid7().hex
        self.argv = ["sh", "-c", f"echo {self.word} >> {self.file}; {then}; echo said"]

    def ran(self) -> int:
        """Count how often it ran."""
        lines = self.file.read_text().split() if self.file.exists() else []
        return lines.count(self.word)


class Agent:
    """An agent that sends a command again until it is told how it ended."""

    def __init__(self, *urls: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._clients = [httpx.Client(base_url=url, headers=headers, timeout=120) for url in urls]

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, to another server when one does not answer."""
        while True:
            for client in self._clients:
                with suppress(httpx.TransportError):
                    return client.request(method, path, **options)
            time.sleep(0.2)

    def open(self) -> str:
        """Open a session; return its path."""
        answer = self.call("POST", "/sandbox/v1/sessions", json={"manifest": {}})
        assert answer.status_code == 201, answer.text
        return f"/sandbox/v1/sessions/{answer.json()['session_id']}"

    def run(self, session: str, word: Word, again: float = 0.0) -> dict[str, Any]:
        """Send a command until an answer says what became of it; errors are asked about again."""
        while True:
            for client in self._clients:
                with suppress(httpx.TransportError):
                    body = {"command": word.argv}
                    answer = client.post(f"{session}/exec", json=body)
                    if answer.status_code == 200 and "send the same command" not in answer.text:
                        told: dict[str, Any] = answer.json()
                        return told
                # Whoever asks again at once, while the server still counts on the first, asks anew.
                time.sleep(again)
            time.sleep(0.2)

    def close(self) -> None:
        """Hang up."""
        for client in self._clients:
            client.close()


class Running(threading.Thread):
    """A call in a thread of its own, and what it returned."""

    def __init__(self, call: Callable[[], dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._told: dict[str, Any] | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        self._told = self._call()

    def told(self, seconds: float = 90) -> dict[str, Any]:
        """Return the answer; fails when none comes."""
        self.join(seconds)
        assert self._told is not None, "the agent got no answer"
        return self._told


def approve_all(client: httpx.Client) -> int:
    """Approve everything that waits; return how much that was."""
    count = 0
    for item in client.get("/api/v1/requests?state=open&limit=200").json()["items"]:
        card = client.get(f"/api/v1/requests/{item['id']}").json()
        vote = {"verdict": "approve", "review_token": card["review_token"], "scope": "once"}
        count += client.post(f"/api/v1/requests/{item['id']}/votes", json=vote).is_success
    return count
