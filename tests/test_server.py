"""The server that other tests use."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from tests.server import Server


def test_a_killed_server_starts_again_with_what_it_had(server_new: Callable[..., Server]) -> None:
    server = server_new()
    agent = server.agent("fix-bot", environment="docker")
    server.start()
    server.kill()
    server.start()
    assert httpx.get(f"{server.url}/health/ready").is_success
    assert agent["token"].startswith("omw_")
    assert server.stop() == 0
