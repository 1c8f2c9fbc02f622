"""A channel layer within one process that other threads may send to.

Channels' own in-memory layer wakes a future of another loop from the wrong
thread, so a hint sent by a worker thread waits for that loop's next tick and
bursts are lost. This one remembers which loop made each channel and hands over
with `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from channels.layers import BaseChannelLayer

Message = dict[str, Any]


class InProcessLayer(BaseChannelLayer):  # type: ignore[misc]  # channels has no types
    """Channels and groups in two tables under one lock, never held across an await."""

    extensions = ["groups", "flush"]

    def __init__(self, capacity: int = 1000, **kwargs: Any) -> None:
        super().__init__(capacity=capacity, **kwargs)
        self._lock = threading.Lock()
        self._channels: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Message]]] = {}
        self._groups: dict[str, set[str]] = {}
        self._count = 0

    async def new_channel(self, prefix: str = "specific.") -> str:
        """Return the name of a new channel that belongs to the running loop."""
        with self._lock:
            self._count += 1
            name = f"{prefix}.inprocess!{self._count}"
            self._channels[name] = (asyncio.get_running_loop(), asyncio.Queue(self.capacity))
        return name

    async def receive(self, channel: str) -> Message:
        """Wait for the next message of a channel."""
        with self._lock:
            if channel not in self._channels:
                loop = asyncio.get_running_loop()
                self._channels[channel] = (loop, asyncio.Queue(self.capacity))
            queue = self._channels[channel][1]
        return await queue.get()

    async def send(self, channel: str, message: Message) -> None:
        """Send to one channel; a full queue drops the hint."""
        self.send_now(channel, message)

    async def group_add(self, group: str, channel: str) -> None:
        """Let a channel hear a group."""
        with self._lock:
            self._groups.setdefault(group, set()).add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        """Let a channel no longer hear a group."""
        with self._lock:
            self._leave(group, channel)

    async def group_send(self, group: str, message: Message) -> None:
        """Send to every channel of a group."""
        self.group_send_now(group, message)

    async def flush(self) -> None:
        """Forget everything."""
        with self._lock:
            self._channels.clear()
            self._groups.clear()

    def group_send_now(self, group: str, message: Message) -> None:
        """Send to a group from any thread, without a loop."""
        with self._lock:
            channels = tuple(self._groups.get(group, ()))
        for channel in channels:
            self.send_now(channel, message)

    def send_now(self, channel: str, message: Message) -> None:
        """Send to one channel from any thread, without a loop."""
        with self._lock:
            entry = self._channels.get(channel)
        if entry is None:
            return
        loop, queue = entry
        try:
            loop.call_soon_threadsafe(_put, queue, dict(message))
        except RuntimeError:  # the loop is closed: its socket is gone
            self.channel_close(channel)

    def channel_close(self, channel: str) -> None:
        """Forget a channel whose socket is gone."""
        with self._lock:
            self._channels.pop(channel, None)
            for group in [name for name, members in self._groups.items() if channel in members]:
                self._leave(group, channel)

    def _leave(self, group: str, channel: str) -> None:
        members = self._groups.get(group)
        if members is not None:
            members.discard(channel)
            if not members:
                del self._groups[group]


def _put(queue: asyncio.Queue[Message], message: Message) -> None:
    if not queue.full():
        queue.put_nowait(message)
