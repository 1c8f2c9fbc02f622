"""Every operation of the API with every role, and with another team's tokens.

The tables come from the OpenAPI document: a new operation is tested without being listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from omniweb.accounts.models import Role
from omniweb.accounts.permissions import ROLE_ACTIONS, Action
from omniweb.api import api
from omniweb.core.ids import ref, uuid7
from tests.server import Server

NOBODY_REF = ref("zzz", uuid7())
# What the paths of operations are completed with, besides references.
PARTS = {"number": "1", "rule_id": "ask_all", "stream": "stdout", "digest": "0" * 64}
# Bodies that are right, so that only the reference is wrong.
BODIES: dict[str, Any] = {
    "profile_set": {"policy": "interactive-dev", "environment": "local"},
    "environment_update": {"is_enabled": True},
    "policy_update": {"needs_second_person": True},
    "policy_check": {"source": "name: open\n"},
    "policy_bisect": {"command": "ls"},
    "policy_explain": {"command": "ls"},
    "version_create": {"source": "name: open\nmode: permissive\nrules: {}\n"},
    "policy_suggest": {"requests": [ref("req", uuid7())]},
    "shadow_create": {"version": 1},
    "simulation_create": {"version": 1},
    "vote_create": {"verdict": "approve", "review_token": "0", "scope": "once"},
    "secret_replace": {"value": "another value"},
    "run_end": {"outcome": "cancelled"},
    "execution_create": {"command": "true"},
    "message_create": {"role": "user", "text": "hello"},
    "annotation_create": {"text": "looked at"},
}


@dataclass(frozen=True)
class Operation:
    """One line of the table."""

    id: str
    method: str
    path: str
    people: Action | None
    agents: bool

    def call(self, client: httpx.Client, reference: str = NOBODY_REF) -> httpx.Response:
        """Send the request for a reference."""
        path = self.path.format(ref=reference, **PARTS)
        body = BODIES.get(self.id)
        params = {"path": "a.txt"} if path.endswith("/files") else {}
        # Not json={}: reading and deleting have no body at all.
        return client.request(self.method, path, params=params, json=body)


def operations() -> Iterator[Operation]:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, facts in methods.items():
            people = facts["x-people"]
            yield Operation(
                id=facts["operationId"],
                method=method.upper(),
                path=path,
                people=Action(people) if people else None,
                agents=facts["x-agents"],
            )


ALL = list(operations())
ON_SOMETHING = [one for one in ALL if "{ref}" in one.path]


@pytest.fixture(scope="module")
def tokens(server: Server) -> dict[str, str]:
    """A token of each role, and of an agent."""
    found = {role.value: server.member_token(role.value) for role in Role}
    return found | {"agent": server.agent_made("reader", "interactive-dev")}


@pytest.fixture(scope="module")
def owned(server: Server) -> dict[str, str]:
    """A reference of everything there is, by the part of the path that asks for it."""
    server.policy("asks", "name: asks\nmode: interactive\nrules: {}\n")
    token = server.agent_made("fix-bot", "asks")
    with server.client(token) as agent, server.client(server.admin_token) as admin:
        run = agent.post("/api/v1/runs", json={"title": "flaky checkout test"}).json()
        execution = agent.post(f"/api/v1/runs/{run['id']}/executions", json={"command": "ls"})
        admin.post("/api/v1/secrets", json={"name": "HARBOUR_TOKEN", "value": "unlike anything"})
        listed = {
            kind: admin.get(f"/api/v1/{kind}").json()["items"][0]["id"]
            for kind in (
                "agents",
                "decisions",
                "environments",
                "policies",
                "requests",
                "secrets",
                "tokens",
            )
        }
    return listed | {
        "runs": run["id"],
        "executions": execution.json()["id"],
        "trajectories": run["trajectory"],
        # There need not be one: that it is another team's must not make a difference.
        "grants": ref("gra", uuid7()),
        "sandboxes": ref("sbx", uuid7()),
        "circuits": ref("cir", uuid7()),
        "prices": ref("prc", uuid7()),
        "simulations": ref("sim", uuid7()),
        "shadows": ref("shd", uuid7()),
    }


@pytest.fixture(scope="module")
def strangers(server: Server) -> dict[str, str]:
    """Tokens of another team, and of another agent of this one."""
    person, agent = server.other_team_tokens()
    return {
        "another team's admin": person,
        "another team's agent": agent,
        "another agent": server.agent_made("other", "interactive-dev"),
    }


@pytest.mark.parametrize("role", [*(role.value for role in Role), "agent"])
def test_a_role_may_use_what_its_actions_allow_and_nothing_else(
    server: Server, tokens: dict[str, str], role: str
) -> None:
    wrong = []
    with server.client(tokens[role]) as client:
        for one in ALL:
            allowed = (
                one.agents
                if role == "agent"
                else one.people is not None and one.people in ROLE_ACTIONS[Role(role)]
            )
            answer = one.call(client)
            if (answer.status_code != 403) != allowed:
                wrong.append(f"{one.method} {one.path}: {answer.status_code} {answer.text}")
            assert answer.status_code < 500, answer.text
    assert not wrong


def test_without_a_token_nothing_answers(server: Server) -> None:
    with server.client() as client:
        for one in ALL:
            answer = one.call(client)
            assert answer.status_code == 401, one
            assert answer.json()["code"] == "not_authenticated"
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "stranger", ["another team's admin", "another team's agent", "another agent"]
)
def test_what_is_not_yours_is_not_there(
    server: Server, owned: dict[str, str], strangers: dict[str, str], stranger: str
) -> None:
    is_agent = stranger.endswith("agent")
    wrong = []
    with server.client(strangers[stranger]) as client:
        for one in ON_SOMETHING:
            if (is_agent and not one.agents) or (not is_agent and one.people is None):
                continue
            kind = one.path.split("/")[3]
            answer = one.call(client, owned[kind])
            if answer.status_code != 404 or answer.json()["code"] != "not_found":
                wrong.append(f"{one.method} {one.path}: {answer.status_code} {answer.text}")
    assert not wrong


def test_lists_show_nothing_of_another_team(
    server: Server, owned: dict[str, str], strangers: dict[str, str]
) -> None:
    with server.client(strangers["another team's admin"]) as client:
        for one in ALL:
            if one.method != "GET" or "{" in one.path or one.people is None:
                continue
            answer = one.call(client)
            assert answer.status_code == 200
            for reference in owned.values():
                assert reference not in answer.text, one


def test_an_agent_never_votes_and_never_sees_what_it_takes_to(
    server: Server, owned: dict[str, str]
) -> None:
    with server.client(server.agent_made("voter", "asks")) as agent:
        run = agent.post("/api/v1/runs", json={}).json()
        execution = agent.post(f"/api/v1/runs/{run['id']}/executions", json={"command": "ls"})
        request = agent.get(f"/api/v1/requests/{execution.json()['request']}").json()
        assert request["review_token"] is None
        assert "never can" in request["why_not"]
        vote = {"verdict": "approve", "review_token": "x", "scope": "once"}
        answer = agent.post(f"/api/v1/requests/{request['id']}/votes", json=vote)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted")
