"""WebSockets are opened by our own pages, for people who are signed in, and carry hints only."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.server import Server

SIGN_IN_FIRST = 4401


@pytest.fixture(scope="module")
def cookies(server: Server) -> Iterator[str]:
    browser = server.browser("approver@example.org")
    yield "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    browser.close()


def open_socket(server: Server, cookies: str = "", **headers: str) -> ClientConnection:
    """Open a WebSocket as one of our own pages does."""
    return connect(
        f"ws://127.0.0.1:{server.port}/ws/live",
        origin=Origin(server.url),
        additional_headers={"Cookie": cookies, **headers},
        open_timeout=10,
        proxy=None,
    )


def test_our_own_page_listens(server: Server, cookies: str) -> None:
    with open_socket(server, cookies) as socket:
        socket.send(json.dumps({"listen": ["inbox", "run:run_0", "nonsense", 7]}))
        answers = [json.loads(socket.recv(10)) for _ in range(2)]
    assert {"listening": ["inbox"]} in answers


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "https://evil.example",
        "http://evil.example:{port}",
        "http://127.0.0.1.evil.example:{port}",
        "http://127.0.0.1@evil.example:{port}",
        # Other servers of the same machine: cookies do not tell ports apart, origins do.
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "http://localhost:{port}",
        "https://127.0.0.1:{port}",
        "javascript://127.0.0.1:{port}",
        "file://",
    ],
)
def test_no_other_page_listens(server: Server, cookies: str, origin: str | None) -> None:
    given = origin.format(port=server.port) if origin else None
    answer = handshake(server, f"127.0.0.1:{server.port}", given, cookies)
    assert answer.startswith(b"HTTP/1.1 403")


def test_a_name_that_merely_leads_here_is_not_us(server: Server, cookies: str) -> None:
    host = f"evil.example:{server.port}"
    answer = handshake(server, host, f"http://{host}", cookies)
    assert answer.startswith(b"HTTP/1.1 403")


def test_two_origins_are_none(server: Server, cookies: str) -> None:
    twice = f"{server.url}\r\nOrigin: https://evil.example"
    answer = handshake(server, f"127.0.0.1:{server.port}", twice, cookies)
    assert answer.startswith(b"HTTP/1.1 4")


def handshake(server: Server, host: str, origin: str | None, cookies: str) -> bytes:
    """Ask for a WebSocket as a browser does; return the beginning of the answer."""
    lines = [
        "GET /ws/live HTTP/1.1",
        f"Host: {host}",
        f"Cookie: {cookies}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]
    lines += [f"Origin: {origin}"] if origin else []
    return server.raw("\r\n".join(lines).encode() + b"\r\n\r\n")


@pytest.mark.parametrize("who", ["nobody", "agent", "admin's token"])
def test_only_people_who_are_signed_in_listen(server: Server, who: str) -> None:
    headers = {}
    if who != "nobody":
        token = (
            server.admin_token
            if who == "admin's token"
            else server.agent_made("ear", "interactive-dev")
        )
        headers = {"Authorization": f"Bearer {token}"}
    with open_socket(server, **headers) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == SIGN_IN_FIRST


def test_what_is_no_message_ends_or_says_nothing(server: Server, cookies: str) -> None:
    for text in ("{", "[]", '{"listen": {"a": 1}}', '"' * 100, "\0", "9" * 5000, "[" * 100_000):
        with open_socket(server, cookies) as socket:
            socket.recv(10)  # the first ping
            socket.send(text)
            try:
                socket.send(json.dumps({"listen": ["inbox"]}))
                assert json.loads(socket.recv(10)) == {"listening": ["inbox"]}
            except ConnectionClosed:
                pass  # closed is fine; what matters is the others:
    assert httpx.get(f"{server.url}/health/live").is_success


def test_another_teams_topics_are_not_heard(server: Server, cookies: str) -> None:
    _, token = server.other_team_tokens()
    with server.client(token) as agent:
        run = agent.post("/api/v1/runs", json={}).json()
    with open_socket(server, cookies) as socket:
        topics = [f"run:{run.get('id', 'run_0')}", f"trajectory:{run.get('trajectory', 'trj_0')}"]
        socket.send(json.dumps({"listen": topics}))
        answers = [json.loads(socket.recv(10)) for _ in range(2)]
    assert {"listening": []} in answers
