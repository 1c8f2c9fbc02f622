"""A real server to measure, and what its clients do all the time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.server import Server

# Allows everything on this machine, but asks about `true --reviewed`, which then does nothing.
POLICY = """
name: bench
mode: permissive
rules:
  ask:
    - {rule_id: ask_reviewed, capability: process.exec, command: {prefix: ["true", "--reviewed"]}}
"""
ALLOWED = ["true"]
REVIEWED = ["true", "--reviewed"]
PATIENCE_SECONDS = 60


@contextmanager
def served(**settings: str) -> Iterator[Server]:
    """Give a server with the policy above and its environment `local` turned on."""
    with tempfile.TemporaryDirectory(prefix="omniweb-bench-") as folder:
        # No limit of requests: it would be what is measured.
        server = Server(Path(folder) / "data", {"OMNIWEB_API_REQUESTS_PER_MINUTE": "10000000"})
        server.variables |= settings
        try:
            server.environment_switch("local")
            server.start()
            server.policy("bench", POLICY)
            yield server
        finally:
            server.remove()


class Agent:
    """A client of the API that has a run with a sandbox."""

    def __init__(self, server: Server, name: str, environment: str = "local") -> None:
        self.token = server.agent_made(name, "bench", environment)
        self.client = server.client(self.token)
        self.run = str(self._posted("/api/v1/runs", {"title": "bench"})["id"])
        # The first command waits until the sandbox is made.
        self.settled(self.ask(ALLOWED)["id"])

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *error: object) -> None:
        with closing(self.client):
            self._posted(f"/api/v1/runs/{self.run}/end", {})
            deadline = time.monotonic() + PATIENCE_SECONDS
            # Its sandbox would outlive a server that is stopped before.
            while self._state() == "finishing" and time.monotonic() < deadline:
                time.sleep(0.05)

    def _posted(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return checked(self.client.post(path, json=body))

    def _state(self) -> str:
        return str(checked(self.client.get(f"/api/v1/runs/{self.run}"))["state"])

    def ask(self, command: list[str]) -> dict[str, Any]:
        """Ask to run a command; return the execution as it is then."""
        return self._posted(f"/api/v1/runs/{self.run}/executions", {"command": command})

    def settled(self, execution: str) -> dict[str, Any]:
        """Wait for the end of a command; return it."""
        wait = {"Prefer": "wait=60"}
        found = checked(self.client.get(f"/api/v1/executions/{execution}", headers=wait))
        assert found["state"] == "finished", found
        return found


def checked(answer: httpx.Response) -> dict[str, Any]:
    """Return what an answer holds; it must be a success."""
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text}"
    body: dict[str, Any] = answer.json()
    return body


def listed(client: httpx.Client, path: str, **wanted: str) -> list[dict[str, Any]]:
    """Return everything a list of the API has, newest first."""
    items: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = checked(client.get(path, params={"limit": "200", "cursor": cursor, **wanted}))
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = page["next"]


def approve(approver: httpx.Client, request: str) -> dict[str, Any]:
    """Look at a request and say yes; return it as it is then."""
    card = checked(approver.get(f"/api/v1/requests/{request}"))
    verdict = {"verdict": "approve", "review_token": card["review_token"]}
    return checked(approver.post(f"/api/v1/requests/{request}/votes", json=verdict))


def seconds_between(earlier: str, later: str) -> float:
    """Return the time from one moment of the API to another."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
