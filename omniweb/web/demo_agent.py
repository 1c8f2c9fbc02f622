"""The demo agent: a fixed script that works through the public API like any other agent.

Everything it runs is harmless, on a machine of its own or not. It knows an address and a token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

# How long it waits for people, and for how long each answer of the server may take.
PATIENCE_SECONDS = 30 * 60
POLL_SECONDS = 20
ANSWER_SECONDS = POLL_SECONDS + 40

SCRIPT = b"""\
#!/bin/sh
# Pretends to publish a version.
echo "packed version $1"
echo "published version $1"
"""

type Tell = Callable[[str], None]
type Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Errand:
    """The second story: what its sandbox asks for, and the one command that needs it."""

    title: str
    manifest: Mapping[str, Any]
    intent: str
    command: str


class DemoAgent:
    """Speaks to `/api/v1` with a bearer token; `tell` hears in words what happens."""

    def __init__(self, client: httpx.Client, tell: Tell) -> None:
        self.client = client
        self.tell = tell

    def work(self, errand: Errand) -> None:
        """Play both stories at once; returns when both have ended. Raises httpx.HTTPError."""
        with ThreadPoolExecutor(2) as pool:
            stories = [pool.submit(self.release), pool.submit(self.errand, errand)]
        for story in stories:
            story.result()

    def release(self) -> None:
        """Commands that are allowed, fail, are denied, and one that a person decides."""
        run = self.open("Release version 1.4.2", {})
        self.say(run, "Release version 1.4.2.", role="user")
        self.say(run, "First I look at where I am.")
        self.do(run, "uname -sr && id")
        self.say(run, "I write the release script and read it once more.")
        self.write(run, "release.sh", SCRIPT)
        self.do(run, "cat release.sh | wc -l")
        if self.do(run, "cat test-results.txt")["exit_code"] != 0:
            self.say(run, "There are no test results here. I go on without them.")
        if self.do(run, "rm -rf build")["state"] == "denied":
            self.say(run, "I may not delete anything, so the old build stays.")
        self.say(run, "Now I publish.")
        released = self.do(run, "sh release.sh 1.4.2 2>&1 | tee release.log && cat release.log")
        self.close(run, released, "Version 1.4.2 is out.")

    def errand(self, errand: Errand) -> None:
        """A sandbox whose manifest asks for more than the policy gives away."""
        run = self.open(errand.title, errand.manifest)
        self.say(run, errand.intent)
        self.close(run, self.do(run, errand.command), "That is what I needed.")

    def open(self, title: str, manifest: Mapping[str, Any]) -> str:
        """Open a run; return its reference."""
        run = self._post("/runs", {"title": title, "manifest": dict(manifest)})
        self.tell(f"opened “{title}”: {run['state']}")
        return str(run["id"])

    def say(self, run: str, text: str, role: str = "assistant") -> None:
        """Report what was said; a run that has ended hears nothing."""
        answer = self.client.post(f"/runs/{run}/messages", json={"role": role, "text": text})
        if answer.status_code != httpx.codes.CONFLICT:
            answer.raise_for_status()

    def write(self, run: str, path: str, data: bytes) -> None:
        """Write a file into the sandbox."""
        wait = {"Prefer": f"wait={POLL_SECONDS}"}
        answer = self.client.put(
            f"/runs/{run}/files", params={"path": path}, content=data, headers=wait
        )
        answer.raise_for_status()
        self.tell(f"wrote {path}")

    def do(self, run: str, command: str) -> Data:
        """Ask for a command and wait for what comes of it, as long as patience lasts."""
        answer = self.client.post(f"/runs/{run}/executions", json={"command": command})
        if answer.status_code == httpx.codes.CONFLICT:
            return {"state": "rejected", "exit_code": None, "reason": answer.json()["detail"]}
        execution: Data = answer.raise_for_status().json()
        self.tell(f"$ {command}: {execution['state']}")
        deadline = time.monotonic() + PATIENCE_SECONDS
        wait = {"Prefer": f"wait={POLL_SECONDS}"}
        while execution["ended_at"] is None and time.monotonic() < deadline:
            address = f"/executions/{execution['id']}"
            execution = self.client.get(address, headers=wait).raise_for_status().json()
        self.tell(f"$ {command}: {_came_of(execution)}")
        return execution

    def close(self, run: str, last: Data, success: str) -> None:
        """Say how it went, and end the run."""
        done = last["exit_code"] == 0
        self.say(run, success if done else f"Not done: {last['reason'] or _came_of(last)}")
        outcome = "succeeded" if done else "failed"
        self._post(f"/runs/{run}/end", {"outcome": outcome})
        self.tell(f"ended: {outcome}")

    def _post(self, path: str, body: Mapping[str, Any]) -> Data:
        answer: Data = self.client.post(path, json=dict(body)).raise_for_status().json()
        return answer


def _came_of(execution: Data) -> str:
    if execution["exit_code"] is not None:
        return f"exit code {execution['exit_code']}"
    return f"{execution['state']} {execution['reason']}".strip()


def demo_client(url: str, secret: str) -> httpx.Client:
    """Return a client of the API at an address such as http://localhost:8000."""
    return httpx.Client(
        base_url=f"{url.rstrip('/')}/api/v1",
        headers={"Authorization": f"Bearer {secret}"},
        timeout=ANSWER_SECONDS,
    )
