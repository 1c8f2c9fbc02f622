"""The same protocol with a broker: web and worker are processes of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.factories import OPEN_POLICY
from tests.server import Server


@pytest.mark.redis
def test_a_command_waits_is_approved_and_runs_in_another_process(
    server_new: Callable[..., Server], redis_url: str
) -> None:
    server = server_new(settings={"REDIS_URL": redis_url})
    server.environment_switch("local")
    server.start()
    server.policy("open", OPEN_POLICY)
    token = server.agent_made("far-bot", "open")
    network = {"default": "allow", "allowed_hosts": [], "denied_hosts": []}
    manifest = {"working_dir": str(server.data / "local"), "network": network}
    with server.client(token) as agent, server.client(server.admin_token) as admin:
        opened = agent.post("/sandbox/v1/sessions", json={"manifest": manifest})
        where = f"/sandbox/v1/sessions/{opened.json()['session_id']}"
        plain = agent.post(f"{where}/exec", json={"command": ["echo", "near"]}).json()
        assert (plain["exit_code"], plain["stdout"]) == (0, "near\n")
        with ThreadPoolExecutor(1) as pool:
            command = ["sh", "-c", "git push; echo far"]
            answer = pool.submit(agent.post, f"{where}/exec", json={"command": command})
            card = _open_card(admin)
            vote = {"verdict": "approve", "review_token": card["review_token"], "scope": "once"}
            voted = admin.post(f"/api/v1/requests/{card['id']}/votes", json=vote)
            assert voted.status_code == 201, voted.text
            assert answer.result().json()["stdout"] == "far\n"
        assert agent.delete(where).status_code == 204


def _open_card(admin: httpx.Client) -> Any:
    for _ in range(300):
        waiting = admin.get("/api/v1/requests?state=open").json()["items"]
        if waiting:
            return admin.get(f"/api/v1/requests/{waiting[0]['id']}").json()
        time.sleep(0.1)
    raise AssertionError("nothing waits")
