"""A draft tried on history.

A policy is replayed over 100,000 recorded decisions on commands, half of them distinct, by the
server's own worker: from the start of the simulation to its kept result. Beside it, reading the
same rows and doing nothing with them. Then a page of the same server while it replays, beside the
same page while it does not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx

from tests.bench.clock import Measure, alternate
from tests.bench.decision import document
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.record import filled, page_of
from tests.bench.serving import checked, listed, seconds_between, served
from tests.server import Server

ROUNDS = 3
PAGES = 40


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure whole simulations, and a page beside one."""
    count = 10_000 if scale.quick else 100_000
    with ExitStack() as stack:
        server = stack.enter_context(served())
        filled(server, f"fill.decisions({count})")
        client = stack.enter_context(server.client(server.admin_token))
        path = f"/api/v1/policies/{_policy(client)}/simulations"
        ours, reading = alternate(
            scale.rounds(ROUNDS, 1), lambda: _replayed(client, path), lambda: _read(server)
        )
        what = f"a draft on {count:,} decisions"
        yield timing(what, ours, "reading them", reading, aim=at_most(10_000, "ms"))
        page = page_of(stack, server, "/policies")
        still, _ = alternate(scale.rounds(PAGES, 5), page, page)
        busy = _while_replaying(client, path, page)
        yield timing("a page meanwhile", busy, "while it rests", still)


def _policy(client: httpx.Client) -> str:
    named = {row["name"]: row["id"] for row in listed(client, "/api/v1/policies")}
    return str(named["bench"])


def _replayed(client: httpx.Client, path: str) -> float:
    """Replay a draft of thirty rules; return the seconds from its start to its result."""
    body: dict[str, Any] = {"source": json.dumps(document(30)), "everywhere": True}
    made = checked(client.post(path, json=body))
    while not made["ended_at"]:
        time.sleep(0.2)
        made = checked(client.get(f"/api/v1/simulations/{made['id']}"))
    assert made["state"] == "finished", made["reason"]
    assert made["result"]["seen"] == made["total"]
    assert made["result"]["flips"]
    return seconds_between(made["created_at"], made["ended_at"])


def _read(server: Server) -> float:
    return float(filled(server, "print(fill.decisions_read())"))


def _while_replaying(client: httpx.Client, path: str, page: Measure) -> list[float]:
    over = threading.Thread(target=_replayed, args=(client, path))
    over.start()
    samples = []
    while over.is_alive():
        samples.append(page())
    return samples
