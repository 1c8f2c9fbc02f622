"""Bodies that are too large, too slow, packed or broken, and requests that come too often."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from omniweb.core.body_limit import MIN_RATE, BodyLimit
from tests.people import People, bearer
from tests.server import Server


@pytest.fixture(scope="module")
def agent(server: Server) -> Iterator[httpx.Client]:
    server.policy("free-bodies", "name: free-bodies\nmode: permissive\nrules: {}\n")
    with server.client(server.agent_made("body-bot", "free-bodies")) as client:
        yield client


@pytest.fixture(scope="module")
def run(agent: httpx.Client) -> str:
    run = agent.post("/api/v1/runs", json={}).json()["id"]
    agent.put(f"/sandbox/v1/sessions/{run}/files?path=first", content=b"")
    return str(run)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip", "unknown"])
def test_a_packed_body_is_never_unpacked(agent: httpx.Client, run: str, coding: str) -> None:
    bomb = (
        gzip.compress(bytes(50_000_000)) if "gzip" in coding else zlib.compress(bytes(50_000_000))
    )
    packed = {"Content-Encoding": coding}
    url = f"/api/v1/runs/{run}/files?path=bomb"
    assert agent.put(url, content=bomb, headers=packed).status_code == 204
    # A file is kept as it came.
    assert agent.get(url).content == bomb

    headers = packed | {"Content-Type": "application/json"}
    command = gzip.compress(b'{"command": "true"}')
    for body in (bomb, command):
        answer = agent.post(f"/api/v1/runs/{run}/executions", content=body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "The body is not valid JSON"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe{}",
        b"nul",
        b'{"command": "true", "command": 1}',
        b'{"command": NaN}',
        b'{"command": "' + b"9" * 5000 + b'", "time_limit_seconds": ' + b"9" * 5000 + b"}",
        b'{"command": "\\ud800"}',
        b'{"command": "true", "env": {"A": "\\u0000"}}',
        b'{"command": "true", "time_limit_seconds": 1e999}',
        b'{"command": ["true"], "stdin": "\\udfff"}',
        b'{"command": ["true", "\\ud800"]}',
        b'{"command": ["true"], "env": {"A": "\\ud800"}}',
        b'{"command": ["true"], "cwd": "\\ud800"}',
        b'{"command": ["true"], "cwd": "a\\u0000"}',
        b'{"command": ["true"], "env": {"A\\ud800": "1"}}',
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/runs/{}/executions", "/sandbox/v1/sessions/{}/exec"])
def test_a_broken_body_is_told_so(agent: httpx.Client, run: str, body: bytes, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = agent.post(path.format(run), content=body, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_input"


@pytest.mark.parametrize(
    "path",
    ["/api/v1/runs", "/api/v1/runs/{}/executions", "/sandbox/v1/sessions/{}/exec", "/sign-in"],
)
def test_a_body_over_eight_megabytes_is_refused(agent: httpx.Client, run: str, path: str) -> None:
    body = json.dumps({"title": "a" * 9_000_000}).encode()
    answer = agent.post(
        path.format(run), content=body, headers={"Content-Type": "application/json"}
    )
    # Signing in takes forms only, and looks at no other body.
    assert answer.status_code in ((413,) if "v1" in path else (403, 413))


def test_too_many_fields_are_refused(db: None) -> None:
    form = {f"field{number}": "1" for number in range(2000)}
    assert Client().post("/sign-in", form).status_code == 400


# Slow bodies, at the limit itself: the real one waits half a minute.


async def answered(pieces: list[tuple[float, bytes]], patience: float) -> tuple[int, float]:
    """Send a body in pieces, each after a pause; return the status and how long it took."""
    sent: list[Any] = []

    async def view(scope: Any, receive: Any, send: Any) -> None:
        message: Any = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": []})

    coming = iter(pieces)

    async def receive() -> Any:
        pause, piece = next(coming, (3600.0, b""))
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    async def send(message: Any) -> None:
        sent.append(message)

    begun = time.monotonic()
    await BodyLimit(view, 10**7, patience)({"type": "http"}, receive, send)
    return sent[0]["status"], time.monotonic() - begun


def test_a_body_that_trickles_in_is_given_up() -> None:
    drops = [(0.05, b"a")] * 1000
    status, seconds = asyncio.run(answered(drops, 0.5))
    assert status == 408
    assert seconds < 5


def test_a_body_that_never_ends_is_given_up() -> None:
    assert asyncio.run(answered([(0.0, b"a" * 100)], 0.3))[0] == 408


def test_a_slow_body_that_goes_on_is_taken() -> None:
    pieces = [(0.1, b"a" * MIN_RATE)] * 8 + [(0.0, b"")]
    assert asyncio.run(answered(pieces, 0.3))[0] == 200


def test_after_the_body_there_is_no_hurry() -> None:
    """An answer may take as long as it likes; only then is it asked whether the client is there."""

    async def view(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        gone = asyncio.ensure_future(receive())
        done, _ = await asyncio.wait({gone}, timeout=0.5)
        assert not done
        gone.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent: list[Any] = []

    async def receive() -> Any:
        if sent:
            await asyncio.sleep(3600)
        sent.append("request")
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(BodyLimit(view, 100, 0.1)({"type": "http"}, receive, send))
    assert sent[-1]["status"] == 200


def test_half_sent_requests_keep_nobody_else_waiting(server: Server) -> None:
    head = b"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
    halves = [head, head + b"\r\n", head + b"\r\n{", b"GET / HTTP"] * 25
    held = []
    try:
        for half in halves:
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            held[-1].sendall(half)
        for _ in range(5):
            assert httpx.get(f"{server.url}/health/ready", timeout=20).is_success
    finally:
        for connection in held:
            connection.close()


def test_lengths_that_contradict_each_other_end_the_connection(server: Server) -> None:
    both = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
    both += b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /inbox HTTP/1.1\r\nHost: x\r\n\r\n"
    twice = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
    twice += b"Content-Length: 0\r\n\r\nGET /inbox HTTP/1.1\r\nHost: x\r\n\r\n"
    for request in (both, twice):
        answer = server.raw(request)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))
        assert b"/sign-in?next=/inbox" not in answer


@pytest.mark.parametrize("who", ["agent", "viewer"])
def test_every_token_has_its_own_limit(people: People, settings: Settings, who: str) -> None:
    settings.API_REQUESTS_PER_MINUTE = 3
    cache.clear()
    eager, other = (bearer(getattr(people, who)) for _ in range(2))
    # Two minutes may meet in the middle of the test; they allow six.
    answers = [Client().get("/api/v1/me", headers=eager) for _ in range(7)]
    last = answers[-1]
    assert (last.status_code, last["Content-Type"]) == (429, "application/problem+json")
    assert last.json()["code"] == "too_many"
    assert 0 < int(last["Retry-After"]) <= 60
    assert Client().get("/api/v1/me", headers=other).status_code == 200
    # The other API counts along.
    if who == "agent":
        session = "/sandbox/v1/sessions/run_0"
        assert Client().delete(session, headers=eager).status_code == 429
        assert Client().delete(session, headers=other).status_code == 204
