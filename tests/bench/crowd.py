"""A crowd on one machine.

500 agents each have a command that waits for a person, and hold their request for it; 100 inboxes
are open and live. Then people approve all of it, one after the other, through the API. Nothing may
be lost: each agent has to get its result, each inbox has to hear of it. Measured is from decided to
started, beside the same with one agent and no inbox, before. The crowd itself runs on this machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing

import httpx
from websockets.asyncio.client import ClientConnection, connect

from tests.bench.approve import approving
from tests.bench.clock import alternate
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.record import filled
from tests.bench.serving import REVIEWED, Agent, approve, checked, listed, seconds_between, served
from tests.server import Server

AGENTS, INBOXES = 500, 100
WAIT_SECONDS = 300
ALONE_ROUNDS = 20


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure one crowd."""
    agents, inboxes = (50, 10) if scale.quick else (AGENTS, INBOXES)
    with (
        served(OMNIWEB_HTTP_WAIT_SECONDS=str(WAIT_SECONDS)) as server,
        closing(server.client(server.member_token("approver"))) as approver,
    ):
        with Agent(server, "alone") as agent:
            [alone] = alternate(ALONE_ROUNDS, approving(agent, approver))
        tokens = json.loads(filled(server, f"print(fill.tokens({agents}))"))
        with closing(server.browser("owner@example.org")) as person:
            cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
        asyncio.run(_crowd(server, tokens, [cookies] * inboxes, approver))
        crowded = _delays(approver, agents)
    yield timing(
        f"{agents} agents, {inboxes} inboxes: decided → started",
        crowded,
        "one agent, no inbox",
        alone,
        aim=at_most(250, "ms"),
        is_about_p95=True,
    )


async def _crowd(
    server: Server, tokens: Sequence[str], cookies: Sequence[str], approver: httpx.Client
) -> None:
    """Let everybody come, approve what they wait for, and see that nobody has lost anything."""
    async with AsyncExitStack() as stack:
        opened = [await _inbox(stack, server, one) for one in cookies]
        limits = httpx.Limits(max_connections=None)
        client = httpx.AsyncClient(base_url=server.url, timeout=WAIT_SECONDS, limits=limits)
        await stack.enter_async_context(client)
        results = [asyncio.create_task(_agent(client, token)) for token in tokens]
        everybody = asyncio.create_task(asyncio.to_thread(_all_waiting, approver, len(tokens)))
        # Whoever is answered before anybody has decided was turned away.
        await asyncio.wait({everybody, *results}, return_when=asyncio.FIRST_COMPLETED)
        turned_away = [one.result() for one in results if one.done()]
        assert not turned_away, f"some were turned away: {turned_away}"
        for request in await everybody:
            last = time.monotonic()
            await asyncio.to_thread(approve, approver, request)
        codes = await asyncio.gather(*results)
        assert codes == [0] * len(tokens), f"some were lost: {codes}"
        await asyncio.wait_for(asyncio.gather(*(one.hears(last) for one in opened)), WAIT_SECONDS)


class Inbox:
    """An open inbox: it listens, and knows when it last heard that something has changed."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._heard_at = 0.0
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            if "topic" in json.loads(message):
                self._heard_at = time.monotonic()

    async def hears(self, moment: float) -> None:
        """Wait until it has heard of a change since a moment; fail when it was cut off."""
        while self._heard_at < moment:
            assert not self._reading.done(), "an inbox was cut off"
            await asyncio.sleep(0.05)


async def _inbox(stack: AsyncExitStack, server: Server, cookies: str) -> Inbox:
    address = f"{server.url.replace('http', 'ws')}/ws/live"
    headers = {"Cookie": cookies, "Origin": server.url}
    socket = await stack.enter_async_context(connect(address, additional_headers=headers))
    await socket.send(json.dumps({"listen": ["inbox"]}))
    while "listening" not in json.loads(await socket.recv()):
        pass
    return Inbox(socket)


async def _agent(client: httpx.AsyncClient, token: str) -> int:
    """Open a session, ask for a command, and wait for its result; return its exit code."""
    headers = {"Authorization": f"Bearer {token}"}
    opened = await client.post("/sandbox/v1/sessions", json={"manifest": {}}, headers=headers)
    address = f"/sandbox/v1/sessions/{checked(opened)['session_id']}/exec"
    result = await client.post(address, json={"command": REVIEWED}, headers=headers)
    return int(checked(result)["exit_code"])


def _all_waiting(approver: httpx.Client, count: int) -> list[str]:
    """Wait until so many requests are open; return them, oldest first."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        waiting = [one["id"] for one in listed(approver, "/api/v1/requests", state="open")]
        if len(waiting) == count:
            return sorted(waiting)
        time.sleep(1)
    raise TimeoutError(f"{len(waiting)} of {count} agents wait after {WAIT_SECONDS} s")


def _delays(approver: httpx.Client, count: int) -> list[float]:
    """Return for each command of the crowd the seconds from decided to started."""
    decided = {one["id"]: one["decided_at"] for one in listed(approver, "/api/v1/requests")}
    started = listed(approver, "/api/v1/executions", state="finished")
    # Newest first, and the crowd came last.
    return [seconds_between(decided[one["request"]], one["started_at"]) for one in started[:count]]
