"""What the test run promises: real services where they are asked for, and no other machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import docker
import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from tests import environment

ROOT = Path(__file__).parent.parent


def pytest_outcome(tmp_path: Path, *, body: str, **variables: str) -> str:
    """Run one test module in a pytest of its own under this suite's plugins; return its output."""
    test = tmp_path / "test_inner.py"
    test.write_text(body)
    options = "-p tests.environment -p tests.requirements -p no:django -p no:cacheprovider"
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options.split(),
            "-c",
            str(ROOT / "pyproject.toml"),
            test,
        ],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return process.stdout + process.stderr


NEEDS_REDIS = "import pytest\n\n@pytest.mark.redis\ndef test_redis():\n    pass\n"


def test_a_missing_service_is_a_skip_that_names_it(tmp_path: Path) -> None:
    output = pytest_outcome(
        tmp_path, body=NEEDS_REDIS, OMNIWEB_TEST_REDIS_URL="", OMNIWEB_TEST_REQUIRE=""
    )
    assert "1 skipped" in output
    assert "no Redis: OMNIWEB_TEST_REDIS_URL is not set" in output


def test_a_missing_service_fails_when_it_is_required(tmp_path: Path) -> None:
    output = pytest_outcome(
        tmp_path, body=NEEDS_REDIS, OMNIWEB_TEST_REDIS_URL="", OMNIWEB_TEST_REQUIRE="redis"
    )
    assert "1 error" in output
    assert "OMNIWEB_TEST_REQUIRE lists redis" in output


def test_an_unknown_requirement_is_refused(tmp_path: Path) -> None:
    output = pytest_outcome(tmp_path, body=NEEDS_REDIS, OMNIWEB_TEST_REQUIRE="podman")
    assert "OMNIWEB_TEST_REQUIRE: unknown podman" in output


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
