"""What a server says happened: its runs, commands, requests and steps, read through the API."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from functools import cached_property
from typing import Any

import docker
import pytest

from sandboxes.adapters.docker import RUN
from tests.server import Server

# Generous, because the machine may be busy; nothing waits longer than it has to.
WAIT_SECONDS = 120

type Row = dict[str, Any]


def until[T](look: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
    """Look again and again until there is something; return it, or fail and say what is missing."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if seen := look():
            return seen
        time.sleep(0.1)
    pytest.fail(f"in {seconds} s there was not: {what}", pytrace=False)


def moment(text: str) -> datetime:
    """Return a time of the API as a value that can be compared."""
    return datetime.fromisoformat(text)


class Record:
    """A server as its admin and an approver see it."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def get(self, path: str, **query: Any) -> Any:
        """Return what the API has at a path."""
        return self._call(self.server.admin_token, "GET", path, params=query)

    def post(self, path: str, body: Row) -> Any:
        """Send something to a path as the admin; return the answer."""
        return self._call(self.server.admin_token, "POST", path, json=body)

    @cached_property
    def _approver(self) -> str:
        return self.server.member_token("approver")

    def _call(self, token: str, method: str, path: str, **options: Any) -> Any:
        with self.server.client(token, verify=False) as client:
            answer = client.request(method, f"/api/v1{path}", **options)
        assert answer.is_success, answer.text
        return answer.json()

    def turn_on(self, environment: str) -> None:
        """Let agents run in an environment."""
        (found,) = [row for row in self.rows("/environments") if row["name"] == environment]
        path = f"/environments/{found['id']}"
        self._call(self.server.admin_token, "PATCH", path, json={"is_enabled": True})

    def rows(self, path: str, **query: Any) -> list[Row]:
        """Return a list of the API, oldest first."""
        items: list[Row] = self.get(path, limit=200, **query)["items"]
        return sorted(items, key=lambda row: str(row["id"]))

    def run(self, agent: str) -> Row:
        """Wait for the latest run of an agent."""
        return until(lambda: self.rows("/runs", agent=agent), f"a run of {agent}")[-1]

    def executions(self, run: str) -> list[Row]:
        """Return the commands of a run with their output, without the client's own.

        After each command an OmniCoreAgent lists the files there are, to take new ones over.
        """
        found = self.rows("/executions", run=run)
        asked = [row for row in found if not row["command"][2].startswith("find . -mindepth 2")]
        return [self.get(f"/executions/{row['id']}") for row in asked]

    def steps(self, run: str) -> list[Row]:
        """Return the steps of a run's record."""
        items: list[Row] = self.get(f"/runs/{run}/steps", limit=500)["items"]
        return items

    def open_request(self, agent: str) -> Row:
        """Wait for the one request of an agent that is open; return its card."""

        def look() -> list[Row]:
            rows = self.rows("/requests", state="open")
            return [row for row in rows if row["agent_name"] == agent]

        (request,) = until(look, f"an open request of {agent}")
        return self.request(request["id"])

    def request(self, ref: str) -> Row:
        """Return a request's card as an approver sees it."""
        card: Row = self._call(self._approver, "GET", f"/requests/{ref}")
        return card

    def decide(self, request: Row, verdict: str = "approve", **vote: Any) -> Row:
        """Vote on a request as the approver; return it as it is then."""
        body = {
            "verdict": verdict,
            "review_token": request["review_token"],
            "scope": request["scopes"][0],
            **vote,
        }
        path = f"/requests/{request['id']}/votes"
        card: Row = self._call(self._approver, "POST", path, json=body)
        return card


def containers(run: str) -> list[str]:
    """Return the containers there are of a run, also those that have stopped."""
    with closing(docker.from_env(timeout=30)) as engine:
        found = engine.api.containers(all=True, filters={"label": f"{RUN}={run}"})
    return [one["Id"] for one in found]
