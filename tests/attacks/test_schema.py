"""Requests made from the OpenAPI documents, right ones and wrong ones, at the running server.

Whatever is sent: no operation fails, each answers as its document says, and errors are problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server import Server

CONTRACTS = Path(__file__).parent.parent / "contracts"
DOCUMENTS = ("openapi.json", "sandbox-openapi.json")
EXAMPLES = 8
# What a provider that fails is answered with; everything else from 500 on is our own failure.
PROVIDER_FAILED = frozenset({502, 503})

# Commands are made up, too, and the environment is this machine: only a harmless one may run.
POLICY = """
name: harmless
mode: strict
rules:
  allow:
    - {rule_id: echo, capability: process.exec, command: {program: [echo, "true"]}, reason: harmless}
    - {rule_id: files, capability: "workspace.*", reason: its own folder}
    - {rule_id: sandbox, capability: "sandbox.*", reason: as its environment says}
"""


@dataclass(frozen=True)
class Ground:
    """Who sends, and a reference of everything there is, by the part of the path that asks for it."""

    server: Server
    tokens: dict[str, str]
    owned: dict[str, str] = field(default_factory=dict)

    def client(self, who: str) -> httpx.Client:
        return self.server.client(self.tokens[who])


@pytest.fixture(scope="module")
def ground(server: Server) -> Ground:
    server.policy("harmless", POLICY)
    server.policy("spare", "name: spare\nmode: strict\nrules: {}\n")
    agent_token = server.agent_made("schema-bot", "harmless")
    # Its own reference is never among those tried: the admin would revoke its own token.
    ground = Ground(server, {"admin": server.member_token("admin"), "agent": agent_token})
    with ground.client("agent") as agent, ground.client("admin") as admin:
        run = agent.post("/api/v1/runs", json={"title": "flaky checkout test"}).json()
        ground.owned["trajectories"] = run["trajectory"]
        agents = admin.get("/api/v1/agents").json()["items"]
        ground.owned["agents"] = next(one["id"] for one in agents if one["name"] == "schema-bot")
        policies = admin.get("/api/v1/policies").json()["items"]
        ground.owned["policies"] = next(one["id"] for one in policies if one["name"] == "spare")
        token = admin.post("/api/v1/tokens", json={"agent": ground.owned["agents"]})
        ground.owned["tokens"] = token.json()["id"]
        places = admin.get("/api/v1/environments").json()["items"]
        ground.owned["environments"] = next(one["id"] for one in places if one["name"] == "docker")
        made = agent.post(f"/api/v1/runs/{run['id']}/executions", json={"command": "echo harbour"})
        done = agent.get(f"/api/v1/executions/{made.json()['id']}", headers={"Prefer": "wait=30"})
        assert done.json()["state"] == "finished", done.text
        ground.owned["executions"] = done.json()["id"]
        ground.owned["decisions"] = done.json()["decision"]
        ground.owned["sandboxes"] = agent.get("/api/v1/sandboxes").json()["items"][0]["id"]
    return ground


def fresh_run(ground: Ground, *, ended: bool) -> str:
    """Return a run of the agent's that nothing else uses."""
    with ground.client("agent") as agent:
        run = agent.post("/api/v1/runs", json={}).json()["id"]
        if ended:
            agent.post(f"/api/v1/runs/{run}/end", json={})
    return str(run)


def reference(ground: Ground, path: str) -> str | None:
    """Return what there is at a path's first part."""
    kind = path.split("/")[3]
    if kind in ("runs", "sessions"):
        # The events of a run come until it ends.
        return fresh_run(ground, ended=path.endswith("/events"))
    return ground.owned.get(kind)


def operations() -> Iterator[Any]:
    for name in DOCUMENTS:
        schema = schemathesis.openapi.from_path(CONTRACTS / name)
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()
            yield pytest.param(operation, id=f"{operation.method} {operation.path}")


def test_the_documents_name_every_operation_of_their_addresses() -> None:
    paths = [json.loads((CONTRACTS / name).read_text())["paths"] for name in DOCUMENTS]
    assert len(list(operations())) == sum(
        len(methods) for path in paths for methods in path.values()
    )


@pytest.mark.parametrize("who", ["admin", "agent"])
@pytest.mark.parametrize("operation", list(operations()))
def test_whatever_is_sent_the_answer_is_as_documented(
    ground: Ground, operation: Any, who: str
) -> None:
    known = reference(ground, operation.path)
    modes = schemathesis.GenerationMode
    cases = operation.as_strategy(generation_mode=modes.POSITIVE) | operation.as_strategy(
        generation_mode=modes.NEGATIVE
    )
    with ground.client(who) as client:

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, is_known=st.booleans())
        def ask(case: Any, is_known: bool) -> None:
            if is_known and known and "ref" in case.path_parameters:
                case.path_parameters["ref"] = known
            check(case, client)

        ask()


def check(case: Any, client: httpx.Client) -> None:
    """Send a case and look at its answer."""
    case.headers.pop("Authorization", None)
    headers = {"Authorization": client.headers["Authorization"]}
    if str(case.headers.get("Prefer", "")).startswith("wait"):
        headers["Prefer"] = "wait=0"
    answer = case.call(base_url=str(client.base_url), headers=headers, timeout=30)
    checks: list[Callable[..., Any]] = [
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    if answer.status_code not in PROVIDER_FAILED:
        checks.append(not_a_server_error)
    case.validate_response(answer, checks=checks)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == ["application/problem+json"]
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert problem["code"]
        assert problem["detail"]
