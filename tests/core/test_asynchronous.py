"""Threads for requests: a few that all share, and none held by a request that waits."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from asgiref.sync import sync_to_async

from omniweb.core.asynchronous import on_lent_threads

MANY = 60


async def served(request: Any) -> Any:
    """Serve a request that is a coroutine function; return what it returned."""
    answers: list[Any] = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        answers.append(await request())

    await on_lent_threads(application)({}, None, None)
    return answers[0]


def busy() -> int:
    """Use a thread for a moment; return which."""
    time.sleep(0.01)
    return threading.get_ident()


def test_requests_that_come_at_once_share_a_few_threads() -> None:
    async def all_at_once() -> list[int]:
        return list(await asyncio.gather(*(served(sync_to_async(busy)) for _ in range(MANY))))

    threads = set(asyncio.run(all_at_once()))
    assert 1 < len(threads) <= 16
    assert threading.get_ident() not in threads


def test_a_request_that_waits_holds_no_thread() -> None:
    async def others_meanwhile() -> list[int]:
        over = asyncio.Event()

        async def waits() -> int:
            await sync_to_async(busy)()
            await over.wait()
            return await sync_to_async(busy)()

        waiting = [asyncio.create_task(served(waits)) for _ in range(MANY)]
        for _ in range(MANY):
            await served(sync_to_async(busy))
        over.set()
        return list(await asyncio.gather(*waiting))

    assert len(asyncio.run(others_meanwhile())) == MANY
