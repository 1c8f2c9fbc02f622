"""How much, how often and how many at once."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from sandboxes.providers.limits import MAX_FILE_BYTES
from tests.people import People, bearer
from tests.server import Server

WAITING = 40


def test_a_token_that_asks_too_often_is_told_when_to_come_back(
    people: People, settings: Settings
) -> None:
    settings.API_REQUESTS_PER_MINUTE = 3
    cache.clear()
    client, eager, other = Client(), bearer(people.viewer), bearer(people.viewer)
    # Two minutes may meet in the middle of the test; they allow six.
    answers = [client.get("/api/v1/me", headers=eager) for _ in range(7)]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert answers[-1].json()["code"] == "too_many"
    assert 0 < int(answers[-1]["Retry-After"]) <= 60
    assert client.get("/api/v1/me", headers=other).status_code == 200


def test_a_body_larger_than_the_largest_file_is_cut_off(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(30)
        head = "PUT /sandbox/v1/sessions/run_0/files?path=a HTTP/1.1"
        length = f"Content-Length: {10 * MAX_FILE_BYTES}"
        connection.sendall(f"{head}\r\nHost: 127.0.0.1\r\n{length}\r\n\r\n".encode())
        piece = bytes(1_000_000)
        try:
            for _ in range(MAX_FILE_BYTES // len(piece) + 10):
                connection.sendall(piece)
            answer = connection.recv(1000)
        except (ConnectionError, TimeoutError):
            return  # cut off before the answer could be read
    assert b" 413 " in answer.split(b"\r\n")[0]


def test_waiting_agents_hold_no_threads(server_new: Callable[..., Server]) -> None:
    server = server_new()
    server.environment_switch("local")
    server.start()
    server.policy("asks", "name: asks\nmode: interactive\nrules: {}\n")
    token = server.agent_made("patient-bot", "asks")
    with server.client(token) as agent, server.client(server.admin_token) as admin:
        run = agent.post("/api/v1/runs", json={}).json()
        for card in admin.get("/api/v1/requests?state=open").json()["items"]:
            shown = admin.get(f"/api/v1/requests/{card['id']}").json()
            vote = {"review_token": shown["review_token"], "scope": shown["scopes"][0]}
            admin.post(f"/api/v1/requests/{card['id']}/votes", json=vote | {"verdict": "approve"})

        def wait(number: int) -> int:
            body = {"command": ["echo", str(number)], "timeout_seconds": 30}
            return agent.post(f"/sandbox/v1/sessions/{run['id']}/exec", json=body).status_code

        before = _threads(server)
        with ThreadPoolExecutor(WAITING) as pool:
            answers = pool.map(wait, range(WAITING))
            _until_all_wait(server)
            during = _threads(server)
            agent.delete(f"/sandbox/v1/sessions/{run['id']}")
            assert set(answers) == {200}
    # The pools for the database and for views have sixteen each; each waiting request would be
    # one more.
    assert during - before <= 2 * 16 + 4


def _threads(server: Server) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("Threads:")[2].split()[0])


def _until_all_wait(server: Server) -> None:
    with server.client(server.admin_token) as admin:
        for _ in range(300):
            page = admin.get("/api/v1/requests?state=open&limit=200").json()
            if len(page["items"]) == WAITING:
                return
    pytest.fail("they do not all wait")
