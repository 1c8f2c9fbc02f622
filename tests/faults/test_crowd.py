"""A crowd: hundreds of agents wait, dozens of inboxes are open, and the server is killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.bench.record import filled
from tests.bench.serving import approve, checked, listed
from tests.faults.outside import AGAIN_SECONDS, POLICIES, Word, rest
from tests.server import Server

AGENTS, INBOXES = 150, 30
# As long as the agents' own patience; nobody gives up before the test is over.
PATIENCE_SECONDS = 240


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server on which each command needs a person, and agents wait for one for minutes."""
    made = Server(tmp_path / "data", {"OMNIWEB_HTTP_WAIT_SECONDS": str(PATIENCE_SECONDS)})
    made.environment_switch("local")
    made.start()
    made.policy("bench", POLICIES["asking"])
    yield made
    made.remove()


async def until_answered(client: httpx.AsyncClient, path: str, body: object) -> dict[str, object]:
    """Post until there is an answer, as an agent does whose server went away."""
    while True:
        try:
            return checked(await client.post(path, json=body))
        except httpx.TransportError:
            await asyncio.sleep(AGAIN_SECONDS)


async def one_agent(url: str, token: str, word: Word) -> object:
    """Open a session, ask for one command, return what it said."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        opened = await until_answered(client, "/sandbox/v1/sessions", {"manifest": {}})
        path = f"/sandbox/v1/sessions/{opened['session_id']}/exec"
        return (await until_answered(client, path, {"command": word.argv}))["stdout"]


async def one_inbox(
    server: Server, cookies: str, is_seen: asyncio.Event, none_left: asyncio.Event
) -> None:
    """Listen, and again when cut off, until a hint has come after the last decision."""
    address = f"{server.url.replace('http', 'ws')}/ws/live"
    headers = {"Cookie": cookies, "Origin": server.url}
    while not is_seen.is_set():
        try:
            async with connect(address, additional_headers=headers) as socket:
                await socket.send(json.dumps({"listen": ["inbox"]}))
                async for _ in socket:
                    if none_left.is_set():
                        is_seen.set()
                        break
        except (OSError, ConnectionClosed, TimeoutError):
            await asyncio.sleep(0.2)


async def everybody_waits(approver: httpx.Client) -> list[str]:
    """Return the open requests once each agent has one, oldest first."""
    for _ in range(PATIENCE_SECONDS):
        waiting = await asyncio.to_thread(listed, approver, "/api/v1/requests", state="open")
        if len(waiting) == AGENTS:
            return sorted(one["id"] for one in waiting)
        await asyncio.sleep(1)
    raise TimeoutError(f"{len(waiting)} of {AGENTS} agents wait")


async def crowd(server: Server, tokens: list[str], words: list[Word], cookies: str) -> list[object]:
    """Let everybody come, kill the server, say yes to all; return what the agents were told."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        approver = stack.enter_context(closing(server.client(server.member_token("approver"))))
        none_left = asyncio.Event()
        inboxes = [asyncio.Event() for _ in range(INBOXES)]
        listening = [
            tasks.create_task(one_inbox(server, cookies, seen, none_left)) for seen in inboxes
        ]
        agents = [
            tasks.create_task(one_agent(server.url, token, word))
            for token, word in zip(tokens, words, strict=True)
        ]
        await everybody_waits(approver)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        *others, last = await everybody_waits(approver)
        for request in others:
            await asyncio.to_thread(approve, approver, request)
        none_left.set()
        await asyncio.to_thread(approve, approver, last)
        told = await asyncio.gather(*agents)
        async with asyncio.timeout(30):
            await asyncio.gather(*listening)
    return told


def test_a_crowd_that_waited_when_the_server_was_killed_gets_all_it_asked_for_once(
    server: Server, tmp_path: Path
) -> None:
    tokens = json.loads(filled(server, f"print(fill.tokens({AGENTS}))"))
    words = [Word(tmp_path) for _ in tokens]
    with closing(server.browser("approver@example.org")) as person:
        cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
    told = asyncio.run(crowd(server, tokens, words, cookies))
    assert told == ["said\n"] * AGENTS
    assert [word.ran() for word in words] == [1] * AGENTS
    rest(server)
