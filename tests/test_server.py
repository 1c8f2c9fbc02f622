"""The server that other tests use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

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


def test_a_port_that_links_would_not_lead_to_is_refused(settings: Any) -> None:
    settings.PORT, settings.PUBLIC_URL = 8000, "http://localhost:8000"
    with pytest.raises(CommandError, match="set OMNIWEB_PORT instead of --port"):
        call_command("serve", port=8001)


def test_stopping_answers_those_who_wait_and_leaves_no_traceback(
    server_new: Callable[..., Server],
) -> None:
    server = server_new()
    server.environment_switch("local")
    server.start()
    token = server.agent_made("waiting-bot", "interactive-dev")
    with server.client(token) as agent:
        session = agent.post("/sandbox/v1/sessions", json={"manifest": {}}).json()["session_id"]
        answers: list[int] = []

        def wait() -> None:
            path = f"/sandbox/v1/sessions/{session}/exec"
            answers.append(agent.post(path, json={"command": ["id"]}).json()["exit_code"])

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(1)
        assert server.stop() == 0
        waiting.join()
    assert answers == [126]
    assert "Traceback" not in server.log.read_text()
