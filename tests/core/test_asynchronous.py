"""Threads for requests: lent from one to the next, never shared, given up before a long wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from asgiref.sync import sync_to_async

from omniweb.core import asynchronous
from omniweb.core.asynchronous import KEPT_THREADS, on_lent_threads, thread_release


async def thread_used() -> int:
    """Return which thread synchronous code of this request runs on."""
    return await sync_to_async(threading.get_ident)()


async def served(request: Any) -> Any:
    """Serve a request that is a coroutine function; return what it returned."""
    answers: list[Any] = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        answers.append(await request())

    await on_lent_threads(application)({}, None, None)
    return answers[0]


def test_a_request_runs_on_one_thread_and_the_next_one_gets_it() -> None:
    async def request() -> list[int]:
        return [await thread_used(), await thread_used()]

    async def both() -> list[int]:
        return [*await served(request), *await served(request)]

    first, *rest = asyncio.run(both())
    assert rest == [first] * 3
    assert first != threading.get_ident()


def test_requests_at_the_same_time_have_threads_of_their_own() -> None:
    async def all_at_once() -> list[int]:
        met = asyncio.Barrier(3)

        async def request() -> int:
            thread = await thread_used()
            await met.wait()
            return thread

        return list(await asyncio.gather(*(served(request) for _ in range(3))))

    assert len(set(asyncio.run(all_at_once()))) == 3


def test_a_request_that_waits_has_no_thread_and_can_have_one_again() -> None:
    async def others_meanwhile() -> list[int]:
        waiting, over = asyncio.Event(), asyncio.Event()

        async def waits() -> list[int]:
            before = await thread_used()
            thread_release()
            waiting.set()
            await over.wait()
            return [before, await thread_used()]

        task = asyncio.create_task(served(waits))
        await waiting.wait()
        meanwhile = await served(thread_used)
        over.set()
        return [meanwhile, *await task]

    assert len(set(asyncio.run(others_meanwhile()))) == 1


def test_no_more_idle_threads_are_kept_than_one_needs() -> None:
    async def crowd() -> None:
        met = asyncio.Barrier(KEPT_THREADS + 5)

        async def request() -> None:
            await thread_used()
            await met.wait()

        await asyncio.gather(*(served(request) for _ in range(KEPT_THREADS + 5)))

    asyncio.run(crowd())
    assert len(asynchronous._idle) == KEPT_THREADS
