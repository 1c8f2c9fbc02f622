"""Asynchronous code at the database: no thread and no connection is held while something waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import SyncToAsync
from channels.db import database_sync_to_async

# Of its own, because the loop's default pool is as small as the machine and also looks up names.
_POOL = ThreadPoolExecutor(max_workers=16, thread_name_prefix="database")


async def in_thread[**P, R](function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that uses the database on a pooled thread, and give its connection back."""
    call = database_sync_to_async(function, thread_sensitive=False, executor=_POOL)
    result: R = await call(*args, **kwargs)
    return result


def thread_release() -> None:
    """Give up the thread that Django keeps for the running request, before a long wait.

    Django starts one per request for its signals and holds it to the request's end; with many
    waiting agents that would be a thread each. What needs it later gets a new one.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    if context is None:
        return
    executor = SyncToAsync.context_to_thread_executor.pop(context, None)
    if executor is not None:
        executor.shutdown(wait=False)
