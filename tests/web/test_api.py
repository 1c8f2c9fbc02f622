"""What the API answers: problems, pages, idempotency, long polls, events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.server import Server

ASKS = """
name: asks-to-push
mode: permissive
rules:
  ask:
    - {rule_id: ask_git_push, capability: process.exec, command: {prefix: [git, push]},
       reason: Publishing needs a person.}
"""


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[httpx.Client]:
    """A client of the team's admin."""
    with server.client(server.admin_token) as client:
        yield client


@pytest.fixture(scope="module")
def agent(server: Server) -> Iterator[httpx.Client]:
    """A client of an agent whose pushes need a person; nothing else does."""
    server.policy("asks-to-push", ASKS)
    with server.client(server.agent_made("pusher", "asks-to-push")) as client:
        yield client


@pytest.fixture(scope="module")
def free(server: Server) -> Iterator[httpx.Client]:
    """A client of an agent that nobody stops, so that no line has to be read in full."""
    server.policy("free", "name: free\nmode: permissive\nrules: {}\n")
    with server.client(server.agent_made("free-bot", "free")) as client:
        yield client


@pytest.fixture(scope="module")
def run(agent: httpx.Client) -> str:
    """A run of that agent."""
    return str(made(agent.post("/api/v1/runs", json={"title": "flaky checkout test"}))["id"])


def made(answer: httpx.Response) -> Any:
    """Return what was made."""
    assert answer.status_code == 201, answer.text
    return answer.json()


def asked(agent: httpx.Client, run: str, command: str, **more: Any) -> Any:
    """Ask to run a command."""
    return made(agent.post(f"/api/v1/runs/{run}/executions", json={"command": command, **more}))


def settled(client: httpx.Client, execution: str) -> Any:
    """Wait for a command's end."""
    headers = {"Prefer": "wait=45"}
    answer = client.get(f"/api/v1/executions/{execution}", headers=headers)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def decide(admin: httpx.Client, request: str, verdict: str = "approve", **more: Any) -> Any:
    """Vote on what the card shows now."""
    card = admin.get(f"/api/v1/requests/{request}").json()
    body = {"verdict": verdict, "review_token": card["review_token"], "scope": card["scopes"][0]}
    return admin.post(f"/api/v1/requests/{request}/votes", json={**body, **more})


# Problems


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/", 404, "not_found"),
        ("GET", "/api/v2/me", 404, "not_found"),
        ("GET", "/sandbox/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/runs/run_nonsense", 404, "not_found"),
        ("DELETE", "/api/v1/me", 405, "method_not_allowed"),
        ("GET", "/api/v1/runs?cursor=nonsense", 422, "invalid_input"),
        ("GET", "/api/v1/runs?limit=0", 422, "invalid_input"),
        ("GET", "/api/v1/runs?state=nonsense", 422, "invalid_input"),
        ("GET", "/api/v1/runs?agent=a%00b", 422, "invalid_input"),
    ],
)
def test_every_error_is_a_problem_with_a_code(
    admin: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    answer = admin.request(method, path)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code)
    assert problem["status"] == status
    assert problem["type"] == f"urn:omniweb:error:{code}"
    assert problem["detail"]


def test_invalid_input_says_where(admin: httpx.Client) -> None:
    answer = admin.post("/api/v1/agents", json={"name": "x", "owner": "admin@localhost", "pol": 1})
    assert answer.status_code == 422
    assert {item["path"] for item in answer.json()["problems"]} == {"policy", "environment", "pol"}


@pytest.mark.parametrize("body", [b"{", b"", b'{"name": "\xff"}', b"[]", b'"text"'])
def test_a_body_that_is_not_what_it_should_be_is_refused(admin: httpx.Client, body: bytes) -> None:
    answer = admin.post("/api/v1/policies", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("text", ["null \x00 character", "half \ud800 pair"])
def test_text_that_no_database_keeps_is_refused(admin: httpx.Client, text: str) -> None:
    body = json.dumps({"name": text, "source": "x"}).encode()
    answer = admin.post("/api/v1/policies", content=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    manifest = json.dumps({"name": "x", "provider": "local", "options": {"a": text}}).encode()
    assert admin.post("/api/v1/environments", content=manifest).status_code == 422


def test_a_body_that_is_too_large_is_said_to_be(admin: httpx.Client) -> None:
    answer = admin.post("/api/v1/policies", json={"name": "x", "source": "x" * 9_000_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_a_bad_policy_is_refused_with_its_line(admin: httpx.Client) -> None:
    source = "name: x\nmode: interactive\nrules:\n  alow: []\n"
    answer = admin.post("/api/v1/policies", json={"name": "x", "source": source})
    [problem, *_] = answer.json()["problems"]
    assert (answer.status_code, problem["line"]) == (422, 4)


def test_an_environment_that_cannot_be_kept_is_refused(admin: httpx.Client) -> None:
    body = {"name": "closed", "provider": "local", "manifest": {}}
    answer = admin.post("/api/v1/environments", json=body)
    assert answer.status_code == 422
    assert "local" in answer.json()["detail"]


# Lists


def test_a_list_comes_in_pages_that_miss_nothing_and_repeat_nothing(
    agent: httpx.Client, run: str
) -> None:
    ids = [asked(agent, run, f"git push origin branch-{number}")["id"] for number in range(5)]
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = agent.get(f"/api/v1/executions?run={run}&limit=2&cursor={cursor}").json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert [one for one in seen if one in ids] == ids[::-1]
    assert len(seen) == len(set(seen))


# Idempotency


def test_the_same_request_with_the_same_key_happens_once(admin: httpx.Client) -> None:
    body = {"name": "once", "source": "name: once\nmode: permissive\nrules: {}\n"}
    headers = {"Idempotency-Key": "make-once"}
    first = admin.post("/api/v1/policies", json=body, headers=headers)
    second = admin.post("/api/v1/policies", json=body, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"


def test_a_key_is_not_lent_to_another_request(admin: httpx.Client) -> None:
    headers = {"Idempotency-Key": "not-lent"}
    source = "name: x\nmode: permissive\nrules: {}\n"
    body = {"name": "not-lent", "source": source}
    made(admin.post("/api/v1/policies", json=body, headers=headers))
    answer = admin.post("/api/v1/policies", json={**body, "name": "other"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "key_reused")


def test_a_key_belongs_to_who_sent_it(server: Server, admin: httpx.Client) -> None:
    headers = {"Idempotency-Key": "mine"}
    first = made(admin.post("/api/v1/tokens", json={}, headers=headers))
    with server.client(server.member_token("viewer")) as viewer:
        second = made(viewer.post("/api/v1/tokens", json={}, headers=headers))
    assert first["id"] != second["id"]


def test_a_secret_shown_once_comes_again_only_with_its_key(admin: httpx.Client) -> None:
    headers = {"Idempotency-Key": "a-token"}
    first = made(admin.post("/api/v1/tokens", json={"label": "kept"}, headers=headers))
    again = made(admin.post("/api/v1/tokens", json={"label": "kept"}, headers=headers))
    assert again["secret"] == first["secret"]
    listed = admin.get("/api/v1/tokens").text
    assert first["id"] in listed
    assert first["secret"] not in listed


def test_eight_of_the_same_at_once_make_one(server: Server, admin: httpx.Client) -> None:
    body = {"name": "raced", "source": "name: raced\nmode: permissive\nrules: {}\n"}

    def post(_: int) -> httpx.Response:
        headers = {"Idempotency-Key": "raced"}
        with server.client(server.admin_token) as client:
            return client.post("/api/v1/policies", json=body, headers=headers)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_refusal_is_repeated_as_it_was(agent: httpx.Client) -> None:
    body = {"manifest": {"network_policy": {"default": "deny"}}}
    headers = {"Idempotency-Key": "impossible"}
    first = agent.post("/api/v1/runs", json=body, headers=headers)
    second = agent.post("/api/v1/runs", json=body, headers=headers)
    assert (first.status_code, first.json()["code"]) == (422, "sandbox_unsupported")
    # The refused run stays as evidence, and there is one of it.
    assert second.json() == first.json()
    assert agent.get(f"/api/v1/runs/{first.json()['run']}").json()["state"] == "refused"


# Running


def test_a_command_runs_and_its_output_is_there(free: httpx.Client) -> None:
    run = made(free.post("/api/v1/runs", json={}))["id"]
    line = "cat; echo oops >&2; exit 3"
    execution = asked(free, run, line, stdin="line\n", env={"A": "1"})
    done = settled(free, execution["id"])
    assert (done["state"], done["exit_code"]) == ("finished", 3)
    assert (done["stdout"], done["stderr"]) == ("line\n", "oops\n")
    assert done["env_names"] == ["A"]
    raw = free.get(f"/api/v1/executions/{execution['id']}/stdout")
    assert raw.content == b"line\n"
    assert raw.headers["x-content-type-options"] == "nosniff"


def test_the_words_of_a_command_are_taken_as_they_are(agent: httpx.Client, run: str) -> None:
    body = {"command": ["printf", "%s|", "a b", "$HOME"]}
    execution = made(agent.post(f"/api/v1/runs/{run}/executions", json=body))
    assert settled(agent, execution["id"])["stdout"] == "a b|$HOME|"


def test_a_long_poll_answers_when_a_person_has_decided(
    agent: httpx.Client, admin: httpx.Client, run: str
) -> None:
    waiting = asked(agent, run, "git push origin main")
    assert waiting["state"] == "waiting"
    with ThreadPoolExecutor(2) as pool:
        began = time.monotonic()
        execution = pool.submit(settled, agent, waiting["id"])
        headers = {"Prefer": "wait=45"}
        request = pool.submit(admin.get, f"/api/v1/requests/{waiting['request']}", headers=headers)
        time.sleep(0.5)
        assert decide(admin, waiting["request"]).status_code == 201
        assert execution.result()["state"] == "finished"
        assert request.result().json()["state"] in ("approved", "spent")
    assert time.monotonic() - began < 30


def test_a_long_poll_gives_up_when_its_time_is_over(agent: httpx.Client, run: str) -> None:
    waiting = asked(agent, run, "git push origin later")
    began = time.monotonic()
    path = f"/api/v1/executions/{waiting['id']}"
    answer = agent.get(path, headers={"Prefer": "respond-async, wait=1"}).json()
    assert answer["state"] == "waiting"
    assert 0.9 < time.monotonic() - began < 20


def test_a_second_vote_is_told_who_was_first(
    agent: httpx.Client, admin: httpx.Client, run: str
) -> None:
    waiting = asked(agent, run, "git push origin twice")
    rejected = decide(admin, waiting["request"], "reject", reason="open a pull request instead")
    assert rejected.json()["state"] == "rejected"
    assert decide(admin, waiting["request"]).json()["code"] == "already_decided"
    told = settled(agent, waiting["id"])
    assert told["reason"] == "Rejected by admin@localhost: open a pull request instead"


def test_a_vote_on_what_was_not_shown_is_stale(
    agent: httpx.Client, admin: httpx.Client, run: str
) -> None:
    waiting = asked(agent, run, "git push origin stale")
    answer = decide(admin, waiting["request"], review_token="of another card")
    assert (answer.status_code, answer.json()["code"]) == (409, "stale")


def test_a_command_can_be_cancelled_while_it_runs(agent: httpx.Client, run: str) -> None:
    execution = asked(agent, run, "echo started; sleep 60")
    path = f"/api/v1/executions/{execution['id']}"
    for _ in range(300):
        if agent.get(path).json()["stdout"]:
            break
        time.sleep(0.1)
    agent.post(f"{path}/cancel")
    done = settled(agent, execution["id"])
    assert done["state"] == "cancelled"
    assert done["stdout"] == "started\n"


def test_files_go_in_and_out_byte_for_byte(agent: httpx.Client, run: str) -> None:
    data = bytes(range(256)) * 4000
    path = {"path": "new/folder/dätä %20.bin"}
    headers = {"Prefer": "wait=30"}
    where = f"/api/v1/runs/{run}/files"
    assert agent.put(where, params=path, content=data, headers=headers).status_code == 204
    assert agent.get(where, params=path).content == data
    assert agent.get(where, params={"path": "absent"}).status_code == 404
    assert agent.get(where, params={"path": "../../../etc/passwd"}).status_code == 422


# The record


def test_the_record_can_be_read_verified_and_followed(
    agent: httpx.Client, admin: httpx.Client
) -> None:
    run = made(agent.post("/api/v1/runs", json={"title": "to be read"}))["id"]
    said = {"role": "user", "text": "Please look around. token=ghp_" + "a" * 36}
    step = made(agent.post(f"/api/v1/runs/{run}/messages", json=said))
    assert step["kind"] == "message"
    assert "ghp_" + "a" * 36 not in step["payload"]["text"]
    settled(agent, asked(agent, run, "echo hello")["id"])
    nested = admin.get(f"/api/v1/runs/{run}/trajectory").json()
    [call] = [
        call for step in nested["segments"][0]["trajectory"]["steps"] for call in step["tool_calls"]
    ]
    assert call["executions"][0]["exit_code"] == 0
    assert call["executions"][0]["stdout"] == "hello\n"
    with ThreadPoolExecutor(1) as pool:
        events = pool.submit(followed, agent, run)
        agent.post(f"/api/v1/runs/{run}/end", json={"outcome": "succeeded"})
        kinds = events.result()
    # After the end there is only the signature over it.
    assert kinds[-2:] == ["run_ended", "checkpoint"]
    steps = admin.get(f"/api/v1/runs/{run}/steps?limit=500").json()
    assert [step["kind"] for step in steps["items"]][: len(kinds)] == kinds
    assert steps["next"] is None
    verified = admin.post(f"/api/v1/runs/{run}/verify").json()
    assert verified["ok"], verified
    assert agent.post(f"/api/v1/runs/{run}/messages", json=said).json()["code"] == "conflict"


def followed(agent: httpx.Client, run: str) -> list[str]:
    """Follow a run to its end; return the kinds of its steps."""
    kinds: list[str] = []
    with agent.stream("GET", f"/api/v1/runs/{run}/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        event = ""
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event == "step":
                kinds.append(json.loads(value)["kind"])
    assert event == "end"
    return kinds


def test_a_policy_explains_itself_without_recording(
    agent: httpx.Client, admin: httpx.Client
) -> None:
    policies = admin.get("/api/v1/policies?limit=200").json()["items"]
    policy = next(one["id"] for one in policies if one["name"] == "asks-to-push")
    before = admin.get("/api/v1/decisions").json()["items"]
    body = {"command": "git status && git push"}
    answer = admin.post(f"/api/v1/policies/{policy}/explain", json=body).json()
    assert answer["decision"]["effect"] == "ask"
    assert answer["decision"]["explanation"]["parts"]
    neither = admin.post(f"/api/v1/policies/{policy}/explain", json={})
    assert neither.status_code == 422
    assert admin.get("/api/v1/decisions").json()["items"] == before


def test_a_secret_option_never_comes_back(admin: httpx.Client) -> None:
    options = {"base_url": "https://sandboxes.example.org", "token": "very secret"}
    body = {"name": "elsewhere", "provider": "http", "options": options}
    made_one = made(admin.post("/api/v1/environments", json=body))
    assert "very secret" not in json.dumps(made_one)
    assert made_one["options"]["base_url"] == "https://sandboxes.example.org"
    path = f"/api/v1/environments/{made_one['id']}"
    changed = admin.patch(path, json={"options": made_one["options"], "is_enabled": False})
    assert (changed.status_code, changed.json()["is_enabled"]) == (200, False)


def test_no_token_makes_one_that_may_do_more(server: Server) -> None:
    with server.client(server.member_token("admin", "read")) as reader:
        refused = reader.post("/api/v1/tokens", json={"scopes": ["admin"]})
        fine = made(reader.post("/api/v1/tokens", json={}))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert fine["scopes"] == ["read"]


def test_a_revoked_token_opens_nothing(server: Server, admin: httpx.Client) -> None:
    token = made(admin.post("/api/v1/tokens", json={"label": "short-lived"}))
    with server.client(token["secret"]) as client:
        assert client.get("/api/v1/me").json()["name"] == "admin@localhost"
        assert admin.delete(f"/api/v1/tokens/{token['id']}").status_code == 204
        assert client.get("/api/v1/me").status_code == 401


def test_the_documentation_needs_nothing_from_elsewhere(admin: httpx.Client) -> None:
    page = admin.get("/api/v1/docs")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "/api/v1/runs/{ref}/executions" in page.text
    assert "https://" not in page.text
