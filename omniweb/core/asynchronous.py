"""Asynchronous code at the database: no thread and no connection is held while something waits.

Threads are lent for one call at a time, from pools that do not grow. A thread for each request, as
Django has it, would mean a new database connection for each, which costs more than most of what is
asked of it; and of hundreds that come at once, SQLite would let some wait for the lock until they
fail, where in line each has its turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async

# For short looks at the database, apart from views, which may take as long as a provider does.
_LOOKS = ThreadPoolExecutor(max_workers=16, thread_name_prefix="database")
_VIEWS = ThreadPoolExecutor(max_workers=16, thread_name_prefix="request")

type Scope = dict[str, Any]
type Application = Callable[[Scope, Any, Any], Awaitable[None]]


async def in_thread[**P, R](function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that uses the database on a pooled thread, and give its connection back."""
    call = database_sync_to_async(function, thread_sensitive=False, executor=_LOOKS)
    result: R = await call(*args, **kwargs)
    return result


def on_lent_threads(application: Application) -> Application:
    """Return an ASGI application whose synchronous code runs on a few threads that all share.

    A request's calls come one after the other, but not all on the same thread: what they have in
    common is in the request, never in a thread.
    """

    async def serve(scope: Scope, receive: Any, send: Any) -> None:
        async with ThreadSensitiveContext(executor=_VIEWS):
            await application(scope, receive, send)

    return serve
