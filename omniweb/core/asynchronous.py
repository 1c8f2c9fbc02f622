"""Asynchronous code at the database: no thread and no connection is held while something waits.

Threads are lent, not started: a new one for each request would mean a new database connection for
each, which costs more than most of what is asked of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from channels.db import database_sync_to_async
from django.db import connections

# Of its own, because the loop's default pool is as small as the machine and also looks up names.
_POOL = ThreadPoolExecutor(max_workers=16, thread_name_prefix="database")

# Idle threads that are kept, with their connections; under more load there are more threads.
KEPT_THREADS = 8
_idle: list[ThreadPoolExecutor] = []

type Scope = dict[str, Any]
type Application = Callable[[Scope, Any, Any], Awaitable[None]]


async def in_thread[**P, R](function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that uses the database on a pooled thread, and give its connection back."""
    call = database_sync_to_async(function, thread_sensitive=False, executor=_POOL)
    result: R = await call(*args, **kwargs)
    return result


class RequestThread(Executor):
    """The one thread for a request's synchronous code, borrowed when it is needed."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    def submit[**P, R](
        self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[R]:
        """Run something on the request's thread."""
        # Only the event loop submits and gives back, so nothing has to be locked.
        if self._thread is None:
            self._thread = _idle.pop() if _idle else ThreadPoolExecutor(1, "request")
        return self._thread.submit(function, *args, **kwargs)

    def give_back(self) -> None:
        """Let another request have the thread; this one borrows again if it has to."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if len(_idle) < KEPT_THREADS:
            _idle.append(thread)
        else:
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)


def on_lent_threads(application: Application) -> Application:
    """Return an ASGI application whose requests borrow their threads."""

    async def serve(scope: Scope, receive: Any, send: Any) -> None:
        thread = RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await application(scope, receive, send)
        finally:
            thread.give_back()

    return serve


def thread_release() -> None:
    """Give up the thread that the running request has, before a long wait.

    Django needs one for its signals and would hold it to the request's end; with many waiting
    agents that would be a thread each.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.get(context) if context else None
    if isinstance(executor, RequestThread):
        executor.give_back()
