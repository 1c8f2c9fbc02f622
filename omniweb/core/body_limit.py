"""No body is larger than the largest file: Django keeps a body on disk before any view can refuse it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from omniweb.core.errors import TooLarge
from omniweb.core.problems import MEDIA_TYPE, problem

type Message = Mapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class BodyLimit:
    """Answers 413 and stops reading once a request has sent more than `limit` bytes."""

    def __init__(self, application: Application, limit: int) -> None:
        self._application = application
        self._limit = limit

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        left = self._limit

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                await self._refuse(send)
                # To the application the client is gone: it stops and answers nothing.
                return {"type": "http.disconnect"}
            return message

        await self._application(scope, counted, send)

    async def _refuse(self, send: Send) -> None:
        error = TooLarge(f"A body may have at most {self._limit} bytes")
        body = json.dumps(problem(error)).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
