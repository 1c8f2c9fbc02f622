"""The browser's WebSocket: it carries hints, and nothing that a page could show.

The browser sends `{"listen": ["inbox", "run:run_01k9…"]}`; the server answers
`{"listening": […]}` with the topics it may hear, then `{"topic": …}` whenever
one changes, and `{"ping": seconds}` so that silence means trouble.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.urls import path

from omniweb.accounts.auth import actor_for_user
from omniweb.accounts.models import User
from omniweb.core.clock import now
from omniweb.core.realtime import channel_forget, group_for

PING_SECONDS = 20
MAX_TOPICS = 20
SIGN_IN_FIRST = 4401


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One open page."""

    async def connect(self) -> None:
        """Accept people who are signed in."""
        self.topics: dict[str, str] = {}
        self.pinging: asyncio.Task[None] | None = None
        user = self.scope["user"]
        session = self.scope["session"]
        self.actor = (
            await database_sync_to_async(lambda: actor_for_user(user, session.get("team")))()
            if isinstance(getattr(user, "_wrapped", user), User)
            else None
        )
        await self.accept()
        if self.actor is None:
            await self.close(SIGN_IN_FIRST)
            return
        self.pinging = asyncio.create_task(self._ping())

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """Replace what the page listens to."""
        wanted = content.get("listen") if isinstance(content, dict) else None
        if not isinstance(wanted, list) or self.actor is None:
            return
        topics = [topic for topic in wanted if isinstance(topic, str)][:MAX_TOPICS]
        groups = await database_sync_to_async(
            lambda: {group_for(self.actor, topic): topic for topic in topics}
        )()
        groups.pop(None, None)
        for group in self.topics.keys() - groups.keys():
            await self.channel_layer.group_discard(group, self.channel_name)
        for group in groups.keys() - self.topics.keys():
            await self.channel_layer.group_add(group, self.channel_name)
        self.topics = groups
        await self.send_json({"listening": sorted(groups.values())})

    async def hint(self, message: dict[str, Any]) -> None:
        """Pass a hint on."""
        topic = self.topics.get(message["group"])
        if topic:
            await self.send_json({"topic": topic})

    async def disconnect(self, code: int) -> None:
        """Stop listening."""
        if self.pinging:
            self.pinging.cancel()
            with suppress(asyncio.CancelledError):
                await self.pinging
        for group in self.topics:
            await self.channel_layer.group_discard(group, self.channel_name)
        channel_forget(self.channel_layer, self.channel_name)

    async def _ping(self) -> None:
        while True:
            await self.send_json({"ping": now().timestamp()})
            await asyncio.sleep(PING_SECONDS)


websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi())]
