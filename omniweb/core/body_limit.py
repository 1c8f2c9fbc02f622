"""No body is larger than the largest file, and none trickles in for ever.

Django keeps a body on disk before any view can refuse it, and waits for its end without limit.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from omniweb.core.errors import OmniWebError, TooLarge, TooSlow
from omniweb.core.problems import MEDIA_TYPE, problem

type Message = Mapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


# A body has this long, and a second more for each MIN_RATE bytes that have come.
PATIENCE_SECONDS = 30.0
MIN_RATE = 1000


class BodyLimit:
    """Answers 413 once a request has sent more than `limit` bytes, 408 when they come too slowly."""

    def __init__(
        self, application: Application, limit: int, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._application = application
        self._limit = limit
        self._patience = patience

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        body = _Body(receive, self._limit, time.monotonic() + self._patience)

        async def watched() -> Message:
            try:
                return await body.next()
            except OmniWebError as error:
                await _refuse(send, error)
                # To the application the client is gone: it stops and answers nothing.
                return {"type": "http.disconnect"}

        await self._application(scope, watched, send)


class _Body:
    """A request's body as it comes; raises TooLarge and TooSlow."""

    def __init__(self, receive: Receive, limit: int, deadline: float) -> None:
        self._receive = receive
        self._limit = limit
        self._deadline = deadline
        self._size = 0
        self._is_whole = False

    async def next(self) -> Message:
        """Return the next piece, and after the last one that the client has gone."""
        if self._is_whole:
            return await self._receive()
        left = self._deadline + self._size / MIN_RATE - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), left)
        except TimeoutError:
            raise TooSlow("The body did not come in time") from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise TooLarge(f"A body may have at most {self._limit} bytes")
        self._is_whole = not message.get("more_body", False)
        return message


async def _refuse(send: Send, error: OmniWebError) -> None:
    body = json.dumps(problem(error)).encode()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
