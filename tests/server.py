"""The real thing: `manage.py serve` in a process of its own, with its own data and port.

Tests that need to see it from outside (protocol, browser, kill -9) use the fixture `server`, which
is shared and must be left running, or make servers of their own with `server_new`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
import pytest

from tests import environment

ROOT = Path(__file__).parent.parent
START_SECONDS = 60
STOP_SECONDS = 30
ADMIN = "admin@localhost"


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One installation: its folder, its process, and the commands that prepare it.

    `settings` are further environment variables. State lives in the folder and the database, so
    `kill` and `start` again is what a crash looks like from outside.
    """

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data / "server.log"
        self._database = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._people: dict[str, str] = {}
        self._admin_token = ""
        self._other_team: tuple[str, str] | None = None
        data.mkdir(parents=True, exist_ok=True)
        self.variables = {
            **{name: value for name, value in os.environ.items() if not _is_ours(name)},
            "OMNIWEB_DATA": str(data),
            "OMNIWEB_PORT": str(self.port),
            "OMNIWEB_PUBLIC_URL": self.url,
            "OMNIWEB_DOCKER_IMAGE": environment.DOCKER_IMAGE,
            **self._database_settings(),
            **(settings or {}),
        }

    def _database_settings(self) -> dict[str, str]:
        if environment.DATABASE != "postgres":
            return {}
        self._database = f"omniweb_server_{self.port}"
        self._postgres(f'CREATE DATABASE "{self._database}"')
        parts = urlsplit(environment.POSTGRES_URL)
        return {"DATABASE_URL": urlunsplit(parts._replace(path=f"/{self._database}"))}

    def _postgres(self, statement: str) -> None:
        with psycopg.connect(environment.POSTGRES_URL, autocommit=True) as connection:
            connection.execute(cast("Any", statement))

    # The process

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process, "the server has not been started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Server:
        """Start it and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=ROOT,
                env=self.variables,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health/live", timeout=5).is_success:
                    return self
            time.sleep(0.05)
        pytest.fail(f"the server did not start:\n{self.log.read_text()}", pytrace=False)

    def stop(self) -> int:
        """Stop it as Ctrl-C does; return its exit code."""
        return self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it without warning."""
        self._end(signal.SIGKILL)

    def restart(self) -> Server:
        """Stop and start it again."""
        self.stop()
        return self.start()

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def remove(self) -> None:
        """Stop it and take away everything it made."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        if self._database:
            self._postgres(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')

    # Preparing it

    def manage(self, *arguments: str) -> str:
        """Run a `manage.py` command on its data; return what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout

    def command(self, *arguments: str) -> dict[str, Any]:
        """Run a command that takes `--json`; return its facts."""
        facts: dict[str, Any] = json.loads(self.manage(*arguments, "--json"))
        return facts

    def user(self, email: str, role: str) -> dict[str, Any]:
        """Create a person: `id`, `email`, `role`, `sign_in` (a link that works once)."""
        return self.command("user_create", email, "--role", role)

    def agent(
        self,
        name: str,
        *,
        owner: str = ADMIN,
        policy: str = "interactive-dev",
        environment: str = "local",
    ) -> dict[str, Any]:
        """Register an agent: `id`, `name`, `policy`, `environment`, `token`."""
        places = ("--owner", owner, "--policy", policy, "--environment", environment)
        return self.command("agent_create", name, *places)

    def token(self, holder: str, *scopes: str) -> str:
        """Return a new bearer token of a person (by address) or an agent (by name)."""
        flags = [flag for scope in scopes for flag in ("--scope", scope)]
        return str(self.command("token_create", holder, *flags)["token"])

    def environment_switch(self, name: str, *, on: bool = True) -> None:
        """Turn one of its environments on or off."""
        code = (
            "from sandboxes.models import Environment;"
            f"Environment.objects.filter(name={name!r}).update(is_enabled={on})"
        )
        assert self.admin_token  # making one prepares an empty installation
        self.manage("shell", "--no-imports", "-c", code)

    # Reaching it

    def client(self, token: str = "", **options: Any) -> httpx.Client:
        """Return a client of the API, with a bearer token if there is one."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, **options)

    def raw(self, request: bytes, *, seconds: float = 60) -> bytes:
        """Send bytes that no client would, and return the beginning of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(request)
            return connection.recv(65536)

    @property
    def admin_token(self) -> str:
        """A token of the first admin."""
        self._admin_token = self._admin_token or self.token(ADMIN)
        return self._admin_token

    def member_token(self, role: str, *scopes: str) -> str:
        """Return a token of the team's `ROLE@example.org`, whom this makes when needed."""
        email = f"{role}@example.org"
        with self.client(self.admin_token) as admin:
            made = admin.post("/api/v1/members", json={"email": email, "role": role})
            assert made.status_code in (201, 409), made.text
            people = admin.get("/api/v1/members", params={"limit": 200}).json()["items"]
            user = next(one["user"] for one in people if one["email"] == email)
            asked = {"user": user, "scopes": list(scopes)}
            token = admin.post("/api/v1/tokens", json=asked)
        assert token.status_code == 201, token.text
        self._people.setdefault(email, "")
        return str(token.json()["secret"])

    def policy(self, name: str, source: str) -> dict[str, Any]:
        """Save a policy under which agents can be registered."""
        with self.client(self.admin_token) as admin:
            answer = admin.post("/api/v1/policies", json={"name": name, "source": source})
        assert answer.status_code == 201, answer.text
        saved: dict[str, Any] = answer.json()
        return saved

    def agent_made(self, name: str, policy: str, environment: str = "local") -> str:
        """Register an agent through the API of the running server; return its token."""
        body = {"name": name, "owner": ADMIN, "policy": policy, "environment": environment}
        with self.client(self.admin_token) as admin:
            agent = admin.post("/api/v1/agents", json=body)
            assert agent.status_code == 201, agent.text
            token = admin.post("/api/v1/tokens", json={"agent": agent.json()["id"]})
        assert token.status_code == 201, token.text
        return str(token.json()["secret"])

    def other_team_tokens(self) -> tuple[str, str]:
        """Return tokens of an admin and an agent of another team, made the first time."""
        if self._other_team is None:
            self._other_team = self._other_team_made()
        return self._other_team

    def _other_team_made(self) -> tuple[str, str]:
        code = (
            "import json;"
            "from omniweb.accounts.models import Role;"
            "from omniweb.accounts.permissions import system;"
            "from omniweb.accounts.services import team_create, token_create, user_create;"
            "from tests.people import agent_actor;"
            "from approvals.services.policies import policies_install;"
            "from sandboxes.services.environments import environments_install;"
            "team = team_create(name='Elsewhere'); actor = system(team);"
            "policies_install(team=team); environments_install(team=team);"
            "user = user_create(actor=actor, email='outsider@example.org', role=Role.ADMIN);"
            "place = team.environments.get(name='docker');"
            "agent = agent_actor(team, user, environment=place, policy='interactive-dev').agent;"
            "person = token_create(actor=actor, user=user)[1];"
            "print(json.dumps([person, token_create(actor=actor, agent=agent)[1]]))"
        )
        person, agent = json.loads(self.manage("shell", "--no-imports", "-c", code))
        return str(person), str(agent)

    def sign_in_link(self, email: str, role: str = "approver") -> str:
        """Return a fresh link that signs a person in, once; creates the person when needed."""
        if email not in self._people and email != ADMIN:
            self._people[email] = str(self.user(email, role)["sign_in"])
            return self._people[email]
        code = (
            "from omniweb.accounts.models import User;"
            "from omniweb.accounts.services import link_create;"
            f"print(link_create(user=User.objects.get(email={email!r})))"
        )
        secret = self.manage("shell", "--no-imports", "-c", code).strip()
        return f"{self.url}/sign-in/link/{secret}"

    def browser(self, email: str, role: str = "approver") -> httpx.Client:
        """Return a client signed in as a person, as a browser is; `cookies` can be handed on."""
        client = httpx.Client(base_url=self.url, timeout=60, follow_redirects=True)
        link = self.sign_in_link(email, role)
        page = client.get(link)
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found, page.text
        headers = {"Origin": self.url, "Referer": link}
        answer = client.post(link, data={"csrfmiddlewaretoken": found[1]}, headers=headers)
        assert "omniweb_session" in client.cookies, answer.text
        return client


def _is_ours(name: str) -> bool:
    return name.startswith("OMNIWEB_") or name in ("DATABASE_URL", "REDIS_URL", "EMAIL_URL")


@pytest.fixture
def server_new(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Make servers of a test's own, not yet started; `settings=` are environment variables."""
    servers: list[Server] = []

    def make(**options: Any) -> Server:
        servers.append(Server(tmp_path / f"server-{len(servers)}", **options))
        return servers[-1]

    yield make
    for one in servers:
        one.remove()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One running server for many tests, its environment `local` turned on; leave it running."""
    one = Server(tmp_path_factory.mktemp("server"))
    one.environment_switch("local")
    one.start()
    yield one
    one.remove()
