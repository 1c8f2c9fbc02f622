"""What a test needs from the machine: found out once, else the test is skipped or fails.

A missing thing is a skip that names it, or a failure when `OMNIWEB_TEST_REQUIRE` lists it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import docker
import psycopg
import pytest
import redis
from docker.errors import DockerException, ImageNotFound

from tests import environment
from tests.e2e import real_agent
from tests.standins import place

ANSWER_SECONDS = 5


@cache
def _docker(image: str = environment.DOCKER_IMAGE) -> str:
    try:
        with closing(docker.from_env(timeout=ANSWER_SECONDS)) as engine:
            engine.images.get(image)
    except ImageNotFound:
        return f"the Docker Engine has no image {image}"
    except DockerException as error:
        return f"no Docker Engine answers: {error}"
    return ""


def _gateway() -> str:
    return _docker() or _docker(environment.GATEWAY_IMAGE)


@cache
def _gvisor() -> str:
    if missing := _docker():
        return missing
    with closing(docker.from_env(timeout=ANSWER_SECONDS)) as engine:
        known = "runsc" in engine.info()["Runtimes"]
    return "" if known else "the Docker Engine has no runtime runsc (gVisor)"


@cache
def _postgres() -> str:
    if not environment.POSTGRES_URL:
        return "no PostgreSQL: OMNIWEB_TEST_POSTGRES_URL is not set (make test sets it)"
    try:
        psycopg.connect(environment.POSTGRES_URL, connect_timeout=ANSWER_SECONDS).close()
    except psycopg.OperationalError as error:
        return f"PostgreSQL does not answer: {error}"
    return ""


@cache
def _redis() -> str:
    if not environment.REDIS_URL:
        return "no Redis: OMNIWEB_TEST_REDIS_URL is not set (make test sets it)"
    try:
        with redis.Redis.from_url(
            environment.REDIS_URL, socket_connect_timeout=ANSWER_SECONDS
        ) as client:
            client.ping()
    except redis.RedisError as error:
        return f"Redis does not answer: {error}"
    return ""


@cache
def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    return environment.CHROMIUM or next(filter(None, map(shutil.which, names)), "")


def _browser() -> str:
    return "" if chromium() else "no Chromium in the PATH"


# Marker → why its thing is missing, or nothing.
MISSING: dict[str, Callable[[], str]] = {
    "docker": _docker,
    "gateway": _gateway,
    "gvisor": _gvisor,
    "postgres": _postgres,
    "redis": _redis,
    "browser": _browser,
    "standin": place.missing,
    "omnicoreagent": real_agent.missing,
}


def require(name: str) -> None:
    """Go on when the thing is there; else skip the test, or fail it if it may not be missing."""
    missing = MISSING[name]()
    if missing and name in environment.REQUIRED:
        pytest.fail(f"OMNIWEB_TEST_REQUIRE lists {name}: {missing}", pytrace=False)
    if missing:
        pytest.skip(missing)


def pytest_configure() -> None:
    """Refuse a requirement that no test can be marked with."""
    if unknown := environment.REQUIRED - MISSING.keys():
        raise pytest.UsageError(f"OMNIWEB_TEST_REQUIRE: unknown {', '.join(sorted(unknown))}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ask for what the test's markers name before any fixture wants it."""
    for name in MISSING:
        if item.get_closest_marker(name):
            require(name)


@pytest.fixture(scope="session")
def docker_image() -> str:
    """Return an image of the engine's with bash, ps and Python."""
    require("docker")
    return environment.DOCKER_IMAGE


@pytest.fixture(scope="session")
def gateway_image() -> str:
    """Return an image of the engine's with what an egress gateway runs."""
    require("gateway")
    return environment.GATEWAY_IMAGE


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """Return the URL of a server where the test may create and drop databases."""
    require("postgres")
    return environment.POSTGRES_URL


@pytest.fixture
def redis_url(worker_id: str) -> str:
    """Return the URL of an empty database that only this test process uses."""
    require("redis")
    number = 0 if worker_id == "master" else 1 + int(worker_id.removeprefix("gw"))
    url = f"{environment.REDIS_URL}/{number}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """Return the browser to start."""
    require("browser")
    return Path(chromium())
