"""An agent's token reaches that agent's own runs, and never a vote, by whichever door."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from approvals.models import Request, RequestState, Scope, Verdict, Vote
from approvals.services.votes import vote_cast
from omniweb.api import api, protocol
from omniweb.core.errors import NotPermitted
from sandboxes.models import Execution, Run
from tests.attacks.pages import SIGNED_IN, owned_by
from tests.people import People, agent_actor, bearer, browser_for

# Bodies that are right, so that only whose it is can be wrong.
BODIES: dict[str, Any] = {
    "execution_create": {"command": "true"},
    "session_exec": {"command": ["true"]},
    "message_create": {"role": "user", "text": "hello"},
}
PARTS = {"number": "1", "stream": "stdout", "digest": "0" * 64}


@pytest.fixture
def owned(people: People) -> dict[str, Any]:
    return owned_by(people)


@pytest.fixture
def other(people: People) -> dict[str, str]:
    """The headers of another agent of the same team and owner."""
    assert people.owner.user is not None
    place = people.team.environments.get()
    return bearer(
        agent_actor(
            people.team, people.owner.user, environment=place, policy="open", name="other-bot"
        )
    )


def agent_operations() -> list[tuple[str, str, str]]:
    """Return method, path and name of all that agents may use and that names something."""
    return [
        (method.upper(), path, facts["operationId"])
        for one in (api, protocol)
        for path, methods in one.get_openapi_schema()["paths"].items()
        for method, facts in methods.items()
        if facts["x-agents"] and "{ref}" in path
    ]


def send(headers: dict[str, str], method: str, path: str, name: str, reference: str) -> Any:
    url = path.format(ref=reference, **PARTS) + ("?path=a.txt" if path.endswith("files") else "")
    body = BODIES.get(name, {}) if method == "POST" else None
    json = {"content_type": "application/json", "data": body} if body is not None else {}
    return getattr(Client(), method.lower())(url, headers=headers, **json)


# In earnest: operations that may wait look at the database from threads of their own.
@pytest.mark.django_db(transaction=True)
def test_what_is_another_agents_is_not_there(
    owned: dict[str, Any], other: dict[str, str], people: People
) -> None:
    references = owned | {"session": owned["run"], "execution": Execution.objects.all()[0].ref}
    before = Run.objects.get().state, Execution.objects.count()
    wrong = []
    for method, path, name in agent_operations():
        if name == "session_end":
            continue  # the protocol ends what is unknown with 204, below
        kind = path.split("/")[3].removesuffix("s").replace("sandboxe", "sandbox")
        answer = send(other, method, path, name, references[kind])
        if answer.status_code != 404 or answer.json()["code"] != "not_found":
            wrong.append(f"{method} {path}: {answer.status_code}")
        unknown = send(other, method, path, name, f"{references[kind][:-4]}0000")
        assert without(answer, references[kind]) == without(unknown, f"{references[kind][:-4]}0000")
    assert not wrong
    assert send(other, "DELETE", "/sandbox/v1/sessions/{ref}", "", owned["run"]).status_code == 204
    assert (Run.objects.get().state, Execution.objects.count()) == before


def without(answer: Any, reference: str) -> str:
    """Return what an answer says, but for the reference that was asked for."""
    text: str = answer.content.decode()
    return text.replace(reference, "")


def test_lists_hold_nothing_of_another_agents(owned: dict[str, Any], other: dict[str, str]) -> None:
    for kind in ("runs", "executions", "requests", "decisions", "sandboxes"):
        assert Client().get(f"/api/v1/{kind}", headers=other).json()["items"] == []
    agents = Client().get("/api/v1/agents", headers=other).json()["items"]
    assert [one["name"] for one in agents] == ["other-bot"]


def test_filters_look_at_nothing_of_another_agents(
    owned: dict[str, Any], other: dict[str, str]
) -> None:
    for question in (f"executions?run={owned['run']}", f"decisions?agent={owned['agent']}"):
        assert Client().get(f"/api/v1/{question}", headers=other).status_code == 404


def test_an_agent_never_votes_by_any_door(owned: dict[str, Any], people: People) -> None:
    request = Request.objects.get(state=RequestState.OPEN)
    votes = Vote.objects.count()
    headers = bearer(people.agent)
    vote = {"verdict": "approve", "review_token": request.review_token, "scope": "once"}

    answer = Client().post(
        f"/api/v1/requests/{request.ref}/votes", vote, "application/json", headers=headers
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted")

    for extra in ({}, {"HX-Request": "true"}, {"Origin": "http://localhost:8000"}):
        page = Client().post(f"/inbox/{request.ref}/decide", vote, headers=headers | extra)
        assert page.status_code == 302

    # A browser's session counts for nothing beside a token, and neither lends to the other.
    signed_in = browser_for(people.approver)
    answer = signed_in.post(
        f"/api/v1/requests/{request.ref}/votes", vote, "application/json", headers=headers
    )
    assert answer.status_code == 403

    with pytest.raises(NotPermitted):
        vote_cast(
            actor=people.agent,
            request=request,
            verdict=Verdict.APPROVE,
            review_token=request.review_token,
            scope=Scope.ONCE,
            reason="",
        )
    request.refresh_from_db()
    assert (request.state, Vote.objects.count()) == (RequestState.OPEN, votes)


def test_an_agent_gives_itself_nothing(owned: dict[str, Any], people: People) -> None:
    headers = bearer(people.agent)
    wanted = {
        "tokens": {"scopes": ["decide"]},
        "members": {"email": "operator@example.org", "role": "admin"},
        "agents": {"name": "b", "owner": "x", "policy": "open", "environment": "here"},
        "policies": {"name": "b", "source": "name: b\nrules: {}\n"},
        f"policies/{owned['policy']}/versions": {"source": "name: b\nrules: {}\n"},
        "environments": {"name": "b", "provider": "local"},
    }
    for path, body in wanted.items():
        answer = Client().post(f"/api/v1/{path}", body, "application/json", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_permitted"), path
    for path in (f"grants/{owned['grant']}", f"tokens/{owned['token']}"):
        assert Client().delete(f"/api/v1/{path}", headers=headers).status_code == 403


@pytest.mark.parametrize("place", ["query", "cookie", "form", "basic", "lower", "padded"])
def test_a_token_counts_in_its_header_only(people: People, place: str) -> None:
    secret = bearer(people.agent)["Authorization"].removeprefix("Bearer ")
    client, url, headers = Client(), "/api/v1/me", {}
    match place:
        case "query":
            url += f"?token={secret}&access_token={secret}&Authorization=Bearer+{secret}"
        case "cookie":
            client.cookies["Authorization"] = client.cookies["token"] = f"Bearer {secret}"
        case "basic":
            headers = {"Authorization": f"Basic {secret}"}
        case "lower":
            headers = {"Authorization": f"Bearer {secret.lower()}"}
        case "padded":
            headers = {"Authorization": f"Bearer {secret}\0"}
    assert client.get(url, headers=headers).status_code == 401
    assert all(client.get(page.url({}), headers=headers).status_code == 302 for page in PLAIN)


PLAIN = [page for page in SIGNED_IN if page.get and not page.on and not page.path]
