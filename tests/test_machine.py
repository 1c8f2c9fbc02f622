"""What the test run promises: real services where they are asked for, and no other machine."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import docker
import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from tests import environment, machine

ROOT = Path(__file__).parent.parent


@pytest.fixture
def no_teapot(monkeypatch: pytest.MonkeyPatch) -> str:
    """Name a requirement that this machine does not meet."""
    monkeypatch.setitem(machine.MISSING, "teapot", lambda: "no teapot answers")
    return "teapot"


def test_a_missing_service_is_a_skip_that_names_it(no_teapot: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="no teapot answers"):
        machine.require(no_teapot)


def test_a_missing_service_fails_when_it_is_required(
    no_teapot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "REQUIRED", frozenset({no_teapot}))
    with pytest.raises(pytest.fail.Exception, match="lists teapot: no teapot answers"):
        machine.require(no_teapot)


def test_an_unknown_requirement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "REQUIRED", frozenset({"docker", "podman"}))
    with pytest.raises(pytest.UsageError, match="unknown podman"):
        machine.pytest_configure()


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.org", 80)])
def test_connecting_to_another_machine_fails_the_test(address: tuple[str, int]) -> None:
    with (
        socket.socket() as client,
        pytest.raises(pytest.fail.Exception, match=f"not to {address[0]}"),
    ):
        client.connect(address)


def test_looking_up_a_name_fails_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"not to example\.org"):
        socket.getaddrinfo("example.org", 443)


def test_this_machine_can_be_connected_to() -> None:
    with (
        socket.create_server(("localhost", 0)) as server,
        socket.create_connection(("localhost", server.getsockname()[1])) as client,
    ):
        assert client.getpeername() == server.getsockname()


def test_the_data_folder_is_one_of_this_process_alone() -> None:
    assert environment.DATA == settings.DATA_DIR
    assert ROOT not in environment.DATA.parents


@pytest.mark.django_db
def test_the_suite_uses_the_chosen_database() -> None:
    assert connection.vendor == environment.DATABASE.replace("postgres", "postgresql")
    assert "memory" not in str(connection.settings_dict["NAME"])


@pytest.mark.docker
def test_a_command_runs_in_the_test_image(docker_image: str) -> None:
    engine = docker.from_env()
    output = engine.containers.run(docker_image, ["python3", "-c", "print(6 * 7)"], remove=True)
    engine.close()
    assert output == b"42\n"


@pytest.mark.gvisor
def test_gvisor_runs_the_test_image(docker_image: str) -> None:
    engine = docker.from_env()
    output = engine.containers.run(docker_image, ["dmesg"], runtime="runsc", remove=True)
    engine.close()
    assert b"gVisor" in output


@pytest.mark.postgres
def test_postgres_lets_the_tests_create_databases(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as database:
        row = database.execute("select rolcreatedb from pg_roles where rolname = user").fetchone()
    assert row == (True,)


@pytest.mark.redis
def test_redis_is_empty_at_the_start_of_a_test(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


@pytest.mark.browser
def test_chromium_shows_a_page(chromium_path: Path) -> None:
    options = "--headless --no-sandbox --disable-gpu --disable-background-networking --dump-dom"
    process = subprocess.run(
        [chromium_path, *options.split(), "data:text/html,<p>here</p>"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "<p>here</p>" in process.stdout
