"""A test of an environment whose server is killed in the middle leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import docker
import pytest

from tests.server import Server

WAIT_SECONDS = 60


def until(look: Callable[[], Any]) -> Any:
    """Look until something is there."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return found


@pytest.mark.docker
def test_a_killed_server_ends_what_its_test_had_made(
    docker_image: str, server_new: Callable[..., Server]
) -> None:
    one = server_new()
    token = one.admin_token
    one.start()

    def tests() -> list[dict[str, Any]]:
        with one.client(token) as admin:
            listed: list[dict[str, Any]] = admin.get(path).json()["items"]
        return listed

    with one.client(token) as admin:
        places = admin.get("/api/v1/environments").json()["items"]
        place = next(item for item in places if item["name"] == "docker")
        path = f"/api/v1/environments/{place['id']}/tests"
        made = admin.post(path).json()
    until(lambda: len(tests()[0]["checks"]) > 5)
    with closing(docker.from_env()) as engine:

        def mine() -> list[Any]:
            return engine.containers.list(
                all=True, filters={"label": f"omniweb.run={made['id']}"}, ignore_removed=True
            )

        assert mine()
        one.kill()
        one.start()
        assert until(lambda: tests()[0]["state"] == "lost")
        until(lambda: not mine())
        with one.client(token) as admin:
            again = admin.post(path)
        assert again.status_code == 201
        until(lambda: len(tests()[0]["checks"]) > 5)
        one.restart()
        stopped = tests()[0]
        assert (stopped["id"], stopped["state"]) == (again.json()["id"], "lost")
        assert stopped["reason"] == "OmniWeb was stopped while it ran"
        made = again.json()
        assert not mine()
