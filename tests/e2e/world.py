"""A server in which all sorts of things have happened, so that every page has something to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.e2e.record import Record, until
from tests.server import Server

POLICY = """
name: harbour
mode: permissive
rules:
  ask:
    - {rule_id: ask_git_push, capability: process.exec, command: {prefix: [git, push]},
       reason: Publishing needs a person.}
    - {rule_id: ask_touch, capability: process.exec, command: {program: touch},
       reason: Making files needs a person.}
  deny:
    - {rule_id: deny_rm, capability: process.exec, command: {program: rm},
       reason: Nothing is deleted here.}
"""

# Rules can read it, unlike a loop of the shell.
WAITS_FOR_GO = """python3 -c 'while not __import__("os").path.exists("go"): pass'"""
UNBROKEN = "a-name-that-has-no-place-where-it-could-be-broken-" * 3
COLOURS = r"printf '\033[1;31mred\033[0m and \033[32mgreen\033[0m\n'; echo oops >&2"
LONG = f"git push origin {UNBROKEN} && echo '<script>alert(1)</script>' | wc -c; ls -la /usr/bin"


class Agent:
    """An agent that works through the public API."""

    def __init__(self, server: Server, name: str, policy: str, environment: str = "local") -> None:
        self.name = name
        self.server = server
        self.token = server.agent_made(name, policy, environment)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request as the agent; a refusal fails the test."""
        with self.server.client(self.token, verify=False) as client:
            answer = client.request(method, f"/api/v1{path}", **options)
        assert answer.is_success, answer.text
        return answer

    def run(self, title: str = "", **manifest: Any) -> str:
        """Open a run; return its reference."""
        body = {"title": title, **({"manifest": manifest} if manifest else {})}
        return str(self.call("POST", "/runs", json=body).json()["id"])

    def ask(self, run: str, command: str, **options: Any) -> str:
        """Ask for a shell line; return the command's reference, whatever became of it."""
        body = {"command": command, **options}
        return str(self.call("POST", f"/runs/{run}/executions", json=body).json()["id"])

    def settled(self, execution: str) -> dict[str, Any]:
        """Wait until a command has ended; return it."""

        def look() -> dict[str, Any]:
            answer = self.call("GET", f"/executions/{execution}", headers={"Prefer": "wait=20"})
            seen: dict[str, Any] = answer.json()
            return seen if seen["ended_at"] else {}

        return until(look, f"an end of {execution}")


@dataclass(frozen=True, kw_only=True)
class World:
    """References of what the pages show."""

    request: str
    decided: str
    run: str
    ended: str
    agent: str
    policy: str
    environment: str
    sandbox: str
    decision: str
    simulation: str
    shadow: str


def world_make(server: Server) -> World:
    """Let an agent of a running server do everything once."""
    record = Record(server)
    record.turn_on("local")
    server.policy("harbour", POLICY)
    agent = Agent(server, "fix-bot", "harbour")
    ended = _ended_run(agent, record)
    run = agent.run(f"Publish {UNBROKEN}")
    agent.call("POST", f"/runs/{run}/messages", json={"role": "assistant", "text": "I publish."})
    agent.settled(agent.ask(run, "echo ready"))
    agent.ask(run, LONG)
    (request,) = record.rows("/requests", state="open")
    (policy,) = [row for row in record.rows("/policies") if row["name"] == "harbour"]
    (decided, *_) = [row for row in record.rows("/requests") if row["state"] != "open"]
    environments = {row["name"]: row["id"] for row in record.rows("/environments")}
    looser = {"source": POLICY.replace("program: rm", "program: rmdir"), "activate": False}
    record.post(f"/policies/{policy['id']}/versions", looser)
    shadow = record.post(f"/policies/{policy['id']}/shadows", {"version": 2})
    agent.ask(run, "rm -rf build")
    simulation = record.post(f"/policies/{policy['id']}/simulations", {"version": 2})
    until(lambda: record.get(f"/simulations/{simulation['id']}")["ended_at"], "its result")
    return World(
        request=request["id"],
        decided=decided["id"],
        run=run,
        ended=ended,
        agent=record.get(f"/runs/{run}")["agent"],
        policy=policy["id"],
        environment=environments["local"],
        sandbox=record.rows("/sandboxes")[0]["id"],
        decision=record.rows("/decisions", effect="ask")[0]["id"],
        simulation=simulation["id"],
        shadow=shadow["id"],
    )


def _ended_run(agent: Agent, record: Record) -> str:
    run = agent.run("Look after the harbour")
    agent.call("POST", f"/runs/{run}/messages", json={"role": "user", "text": "Tidy up."})
    for command in (COLOURS, "cat missing.txt", "seq 400", "rm -rf build"):
        agent.settled(agent.ask(run, command))
    agent.settled(agent.ask(run, "sleep 30", time_limit_seconds=1))
    agent.call("PUT", f"/runs/{run}/files", params={"path": "notes.txt"}, content=b"tidy\n")
    for command, verdict, vote in (
        ("touch one", "approve", {"scope": "run"}),
        ("touch two", "reject", {"reason": "Two is one too many."}),
    ):
        asked = agent.ask(run, command)
        record.decide(record.open_request(agent.name), verdict, **vote)
        agent.settled(asked)
    agent.settled(agent.ask(run, "touch one"))
    agent.call("POST", f"/runs/{run}/end", json={"outcome": "succeeded"})
    until(lambda: record.get(f"/runs/{run}")["ended_at"], "the end of a run")
    return run
