"""HTTP: your own sandbox service. Both ends are ours: the client here, `/sandbox/v1` as a service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from omniweb.core.errors import ProviderUnavailable, SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import open_provider, provider_spec
from sandboxes.providers.spec import Kind
from tests.people import People, bearer
from tests.providers.running import sh, somebody
from tests.providers.services import Asked, Honest, Listening, Reply, Wire, listening
from tests.requirements.sandbox_providers.doors import JSON, session_open

TOKEN = "a-token-of-the-service"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Listening]:
    """A service that keeps the protocol."""
    with listening(Honest(tmp_path)) as one:
        yield one


@pytest.fixture
def sandbox(service: Listening, tmp_path: Path) -> LiveSandbox:
    """A session of it, made the way the document's example says."""
    provider = open_provider("http", {"base_url": service.url, "token": TOKEN})
    fields = {
        "working_dir": str(tmp_path / "work"),
        "environment": {"plain": {"A": "1"}},
        "resources": {"cpu": "2", "memory": "1g"},
    }
    return provider.create(Manifest.parse(fields), owner=somebody())


# The five requests


def test_a_session_is_asked_for_with_the_manifest(
    service: Listening, sandbox: LiveSandbox, tmp_path: Path
) -> None:
    """'POST /sessions | {"manifest": {image, working_dir, environment, network, resources}}'."""
    assert service.asked[0].line == "POST /sessions"
    assert set(service.asked[0].json) == {"manifest"}
    assert service.asked[0].json["manifest"] == {
        "image": None,
        "working_dir": str(tmp_path / "work"),
        "environment": {"A": "1"},
        "network": {"default": "deny", "allowed_hosts": [], "denied_hosts": []},
        "resources": {"cpu": "2", "memory": "1g", "gpu": False},
    }


def test_a_command_is_sent_and_its_result_read(service: Listening, sandbox: LiveSandbox) -> None:
    """'POST /sessions/{id}/exec | {command, cwd, env, timeout_seconds, stdin}'."""
    ran = sh(sandbox, "cat; echo err >&2; exit 3", stdin=b"in", time_limit_seconds=20)
    assert (ran.code, ran.stdout, ran.stderr, ran.result.timed_out) == (3, b"in", b"err\n", False)
    sent = service.asked[-1].json
    assert set(sent) == {"command", "cwd", "env", "timeout_seconds", "stdin"}


def test_a_file_is_put_and_fetched_as_raw_bytes(service: Listening, sandbox: LiveSandbox) -> None:
    """'PUT /sessions/{id}/files?path= | raw bytes', 'GET … | raw bytes'."""
    sandbox.write_file("a/b.bin", bytes(range(256)))
    assert service.asked[-1].body == bytes(range(256))
    assert sandbox.read_file("a/b.bin") == bytes(range(256))
    assert [asked.method for asked in service.asked[-2:]] == ["PUT", "GET"]


def test_a_session_is_deleted(service: Listening, sandbox: LiveSandbox) -> None:
    """'DELETE /sessions/{id} | 204'."""
    sandbox.terminate()
    assert service.asked[-1].method == "DELETE"


def test_each_request_carries_the_token_when_one_is_set(
    service: Listening, sandbox: LiveSandbox
) -> None:
    """'each with Authorization: Bearer <token> when a token is set'."""
    sh(sandbox, "true")
    sandbox.terminate()
    assert {asked.headers["Authorization"] for asked in service.asked} == {f"Bearer {TOKEN}"}
    service.asked.clear()
    open_provider("http", {"base_url": service.url}).check()
    assert "Authorization" not in service.asked[0].headers


def test_only_the_plain_environment_is_sent(service: Listening, sandbox: LiveSandbox) -> None:
    """'Only the plain environment is sent.'"""
    secret = Manifest.parse({"environment": {"plain": {"A": "1"}, "secret_refs": ["vault/key"]}})
    with pytest.raises(SandboxUnsupported, match="does not enforce delivering secrets"):
        open_provider("http", {"base_url": service.url}).create(secret, owner=somebody())
    assert all("vault/key" not in str(asked.body) for asked in service.asked)


# The options


def test_the_options_are_those_of_the_table_with_their_defaults() -> None:
    """The table of options, its first two columns."""
    needed = {"base_url": "https://sandboxes.example.com"}
    assert provider_spec("http").read_options(needed) == {
        **needed,
        "token": None,
        "headers": None,
        "request_timeout_seconds": 120,
        "verify_tls": True,
        "max_output_bytes": 1_000_000,
    }
    [base_url, token, *_] = provider_spec("http").options
    assert (base_url.required, token.kind) == (True, Kind.SECRET)


def test_headers_are_extra_headers_on_every_request(service: Listening) -> None:
    """'headers: Extra headers on every request'."""
    options = {"base_url": service.url, "headers": {"X-Team": "harbour"}}
    sandbox = open_provider("http", options).attach({"session": "none"}, Manifest())
    sandbox.terminate()
    assert service.asked[0].headers["X-Team"] == "harbour"


def test_request_timeout_seconds_is_per_request() -> None:
    """'request_timeout_seconds: Per request'."""

    def never(asked: Asked, wire: Wire) -> Reply:
        time.sleep(10)
        return Reply()

    with listening(never) as silent:
        options = {"base_url": silent.url, "request_timeout_seconds": 1}
        sandbox = open_provider("http", options).attach({"session": "s"}, Manifest())
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable):
            sandbox.read_file("a")
        with pytest.raises(ProviderUnavailable):
            sandbox.terminate()
        assert 1.8 < time.monotonic() - started < 6


def test_max_output_bytes_is_kept_of_each_stream(service: Listening, tmp_path: Path) -> None:
    """'max_output_bytes: Output kept per stream'."""
    provider = open_provider("http", {"base_url": service.url, "max_output_bytes": 10})
    fields = {"working_dir": str(tmp_path / "work")}
    sandbox = provider.create(Manifest.parse(fields), owner=somebody())
    ran = sh(sandbox, "echo 0123456789abc; echo 0123456789abc >&2")
    assert (ran.stdout, ran.stderr) == (b"0123456789", b"0123456789")


# Ours as the service


@pytest.mark.parametrize(
    "wire",
    [
        {"network": {"default": "deny", "allowed_hosts": ["packages.example.org"]}},
        {"network": {"default": "allow", "denied_hosts": ["packages.example.org"]}},
    ],
)
def test_our_service_refuses_a_network_policy_it_cannot_keep(
    people: People, wire: dict[str, Any]
) -> None:
    """'one that cannot keep the network policy must refuse the session'."""
    is_open = {"network_policy": {"default": "allow"}}
    row = Environment.objects.create(
        team=people.team, name="local", provider="local", manifest=is_open
    )
    answer = session_open(people.agent, row, wire)
    assert answer.status_code == 422
    assert "does not enforce" in answer.json()["detail"]


def test_our_service_answers_only_with_its_token(people: People) -> None:
    """'Authorization: Bearer <token>', read from the other end."""
    for headers in ({}, {"Authorization": "Bearer nonsense"}, bearer(people.operator)):
        answer = Client().post(
            "/sandbox/v1/sessions", {"manifest": {}}, content_type=JSON, headers=headers
        )
        assert answer.status_code in (401, 403)


def test_our_service_answers_a_new_session_and_its_end_as_the_table_says(people: People) -> None:
    """'{"session_id": "…"}', '204'."""
    row = Environment.objects.create(team=people.team, name="docker", provider="docker")
    opened = session_open(people.agent, row)
    assert set(opened.json()) == {"session_id"}
    address = f"/sandbox/v1/sessions/{opened.json()['session_id']}"
    for _ in range(2):
        ended = Client().delete(address, headers=bearer(people.agent))
        assert (ended.status_code, ended.content) == (204, b"")
