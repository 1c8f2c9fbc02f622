"""A real server with secrets planted everywhere, driven through its whole pipeline.

Each secret is unlike any other text, so that finding its letters is proof.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from tests.server import Server

POLICY = """
name: watched
mode: permissive
rules:
  ask:
    - {rule_id: ask_git, capability: process.exec, command: {program: git}, reason: Look first.}
  deny:
    - {rule_id: deny_rm, capability: process.exec, command: {program: rm}, reason: Nothing goes.}
"""


def planted(name: str) -> str:
    """Return a secret that says of itself what it is, for whoever finds it."""
    return f"Zq9{name}x{secrets.token_hex(12)}"


def forms(secret: str) -> set[str]:
    """Return the secret, and how it would look encoded."""
    raw = secret.encode()
    return {secret, quote(secret, safe=""), base64.b64encode(raw).decode().rstrip("=")[:-1]}


@dataclass
class World:
    """A server that secrets have been planted in, and all that it has said since."""

    server: Server
    secrets: dict[str, str] = field(default_factory=dict)
    heard: list[tuple[str, str]] = field(default_factory=list)

    def plant(self, name: str) -> str:
        return self.secrets.setdefault(name, planted(name))

    def hear(self, answer: httpx.Response) -> httpx.Response:
        """Keep what an answer said, its head as well."""
        where = f"{answer.request.method} {answer.request.url.path} {answer.status_code}"
        self.heard.append((where, f"{answer.headers}\n{answer.text}"))
        return answer

    def leaks(self, texts: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
        """Return where secrets are in texts, by the secret; references become their kind."""
        found: dict[str, set[str]] = defaultdict(set)
        for where, text in texts:
            for name, value in self.secrets.items():
                if any(form in text for form in forms(value)):
                    found[name].add(re.sub(r"_01[0-9a-z]{24}", "_…", where))
        return dict(found)


# What the server's own environment holds.
VARIABLES = {
    "AWS_SECRET_ACCESS_KEY": "aws",
    "GITHUB_TOKEN": "github",
    "DB_PASSWORD": "password",
    "OMNIWEB_SECRET_KEY": "key",
    "E2B_API_KEY": "provider",
}


def world_new(data: Path) -> World:
    """Start a server whose variables are secret; the caller plants the others and removes it."""
    known = {name: planted(short) for name, short in VARIABLES.items()}
    mail = planted("mail")
    settings = known | {
        "OMNIWEB_LOG_LEVEL": "DEBUG",
        "EMAIL_URL": f"smtp://mailer:{mail}@127.0.0.1:1",
    }
    server = Server(data, settings)
    assert server.admin_token
    server.start()
    return World(server, {"mail": mail} | dict(zip(VARIABLES, known.values(), strict=True)))


def plant_all(world: World) -> None:
    """Make places and an agent, and let the agent do everything with a secret in it."""
    server = world.server
    server.policy("watched", POLICY)
    with server.client(server.admin_token) as admin:
        places(world, admin)
        token = server.agent_made("leaky-bot", "watched", "leaky")
        world.secrets["agent's token"] = token.removeprefix("omw_")
        world.secrets["admin's token"] = server.admin_token.removeprefix("omw_")
        with server.client(token) as agent:
            work(world, agent, admin)
    invite(world)


def places(world: World, admin: httpx.Client) -> None:
    """Make an environment that inherits all variables, and one whose options are secret."""
    variables = {"MANIFEST_TOKEN": world.plant("manifest"), "PLAIN": "harmless"}
    folder = str(world.server.data / "leaky")
    leaky = {
        "name": "leaky",
        "provider": "local",
        "options": {"create_working_dir": True, "inherit_environment": True},
        "manifest": {
            "working_dir": folder,
            "network_policy": {"default": "allow"},
            "environment": {"plain": variables},
        },
    }
    options = {
        "base_url": "http://127.0.0.1:1/sandbox/v1",
        "token": world.plant("option"),
        "headers": {"X-Api-Key": world.plant("header")},
    }
    remote = {"name": "remote", "provider": "http", "options": options, "manifest": {}}
    for body in (leaky, remote):
        made = world.hear(admin.post("/api/v1/environments", json=body))
        assert made.status_code == 201, made.text
    team_secrets(world, admin)
    # Refusals may not say them either.
    for name in ("remote", ""):
        broken = remote | {"name": name, "options": options | {"nonsense": options["token"]}}
        world.hear(admin.post("/api/v1/environments", json=broken))


def team_secrets(world: World, admin: httpx.Client) -> None:
    """Keep a secret of the team, give it another value, and try one that cannot be."""
    body = {"name": "HARBOUR_TOKEN", "value": world.plant("team"), "hosts": ["api.example.org"]}
    made = world.hear(admin.post("/api/v1/secrets", json=body))
    assert made.status_code == 201, made.text
    value = f"/api/v1/secrets/{made.json()['id']}/value"
    assert world.hear(admin.put(value, json={"value": world.plant("newer")})).status_code == 200
    for wrong in (body, body | {"name": "no name"}, body | {"value": f"{body['value']}\n"}):
        world.hear(admin.post("/api/v1/secrets", json=wrong))


def work(world: World, agent: httpx.Client, admin: httpx.Client) -> None:
    for reference, bodies in (
        (session_opened(world, agent), [{"command": "env; echo $SESSION_TOKEN"}]),
        (run_opened(world, agent), list(commands(world))),
    ):
        decide_all(world, admin)
        for body in bodies:
            execute(world, agent, admin, reference, body)
        say(world, agent, reference)
        end = f"/api/v1/runs/{reference}/end"
        world.hear(agent.post(end, json={"reason": said(world, "end")}))


def session_opened(world: World, agent: httpx.Client) -> str:
    """Open a run as unmodified agents do."""
    session = agent.post(
        "/sandbox/v1/sessions",
        json={"manifest": {"environment": {"SESSION_TOKEN": world.plant("session")}}},
        headers={
            "X-Omniweb-Task": said(world, "title"),
            "X-Omniweb-Group": said(world, "group"),
        },
    )
    return str(world.hear(session).json()["session_id"])


def run_opened(world: World, agent: httpx.Client) -> str:
    variables = {"environment": {"plain": {"RUN_PASSWORD": world.plant("run")}}}
    body = {"title": said(world, "title"), "manifest": variables}
    return str(world.hear(agent.post("/api/v1/runs", json=body)).json()["id"])


def execute(
    world: World, agent: httpx.Client, admin: httpx.Client, run: str, body: dict[str, Any]
) -> None:
    """Have a command asked, approved where needed, run and read back."""
    made = world.hear(agent.post(f"/api/v1/runs/{run}/executions", json=body))
    assert made.status_code == 201, made.text
    decide_all(world, admin)
    url = f"/api/v1/executions/{made.json()['id']}"
    done = world.hear(agent.get(url, headers={"Prefer": "wait=30"})).json()
    assert done["ended_at"], done
    for stream in ("stdout", "stderr"):
        world.hear(agent.get(f"{url}/{stream}"))


def said(world: World, name: str) -> str:
    """Return what someone says without thinking of who reads it."""
    return f"deploy with token={world.plant(name)} please"


def commands(world: World) -> Iterator[dict[str, Any]]:
    """Yield commands that hold, print and hide secrets; some are asked about, some denied."""
    call = {"CALL_TOKEN": world.plant("call")}
    yield {"command": "env | sort", "env": call}
    yield {"command": "wc -c", "stdin": world.plant("stdin")}
    yield {"command": "printenv CALL_TOKEN RUN_PASSWORD | base64 -w0 >&2", "env": call}
    yield {"command": "sh -c 'sleep 0.3; printf %s $GITHUB_TOKEN; sleep 0.3; env'", "env": call}
    yield {"command": f"export TOKEN={world.plant('export')}; echo done"}
    bearer = f"Authorization: Bearer {world.plant('bearer')}"
    yield {"command": f"curl -sS -H '{bearer}' http://127.0.0.1:1/"}
    yield {"command": ["curl", "-sS", "-H", bearer, "http://127.0.0.1:1/"]}
    yield {"command": ["echo", "--password", world.plant("flag")]}
    yield {"command": f"git push https://bot:{world.plant('url')}@127.0.0.1:1/a.git"}
    yield {"command": f"GIT_TOKEN={world.plant('git')} git push --token {world.plant('push')}"}
    yield {"command": f"rm -rf / --api-key={world.plant('denied')}"}
    yield {"command": [f"/no-such-program/token={world.plant('program')}"]}
    yield {"command": "true", "cwd": f"token={world.plant('cwd')}"}
    yield {"command": f"echo 'never closed password={world.plant('broken')}"}


def decide_all(world: World, admin: httpx.Client) -> None:
    """Read every open card as people do, and approve it with a careless word."""
    for one in admin.get("/api/v1/requests?state=open").json()["items"]:
        card = world.hear(admin.get(f"/api/v1/requests/{one['id']}")).json()
        vote = {"verdict": "approve", "review_token": card["review_token"]}
        vote |= {"scope": card["scopes"][-1], "reason": said(world, "reason")}
        answer = admin.post(f"/api/v1/requests/{one['id']}/votes", json=vote)
        assert world.hear(answer).status_code == 201, answer.text


def say(world: World, agent: httpx.Client, run: str) -> None:
    """Report messages and move files with secrets in what is said and in their names."""
    for text in (said(world, "message"), said(world, "long") + "." * 20_000):
        body = {"role": "user", "text": text}
        world.hear(agent.post(f"/api/v1/runs/{run}/messages", json=body))
    for path in (f"token={world.plant('file')}", f"../token={world.plant('beyond')}"):
        for start in ("/api/v1/runs", "/sandbox/v1/sessions"):
            url = f"{start}/{run}/files"
            world.hear(agent.put(url, params={"path": path}, content=b"harmless"))
            world.hear(agent.get(url, params={"path": path + "/deeper"}))
    for method, url in (("GET", "/api/v1/runs/token={}"), ("POST", "/api/v1/token={}")):
        world.hear(agent.request(method, url.format(world.plant("address"))))


def invite(world: World) -> None:
    """Invite someone, and make a token on the page; each secret is shown that once only."""
    browser = world.server.browser("operator@example.org", "admin")
    for url, form, pattern in (
        ("/people", {"email": "owner@example.org", "role": "viewer"}, r"/sign-in/link/([\w-]+)"),
        (connect_url(world, browser), {"label": "laptop", "lifetime": "90"}, r"omw_([\w-]{30,})"),
    ):
        csrf = re.search(r'csrfmiddlewaretoken" value="(\w+)"', browser.get(url).text)
        assert csrf, url
        headers = {"Origin": world.server.url}
        answer = browser.post(url, data=form | {"csrfmiddlewaretoken": csrf[1]}, headers=headers)
        shown = re.search(pattern, answer.text)
        assert shown, answer.text
        world.secrets[f"shown at {url.rpartition('/')[2]}"] = shown[1]
        if "sign-in" in pattern:
            # Mail scanners and previews look at links in ways that are refused, and logged.
            for method in ("HEAD", "POST", "PUT"):
                assert httpx.request(method, world.server.url + shown[0]).is_error
    browser.close()


def connect_url(world: World, browser: httpx.Client) -> str:
    found = re.search(r'href="/agents/(agt_\w+)"', browser.get("/agents").text)
    assert found
    return f"/agents/{found[1]}/connect"
