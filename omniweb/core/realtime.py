"""Hints: "something about this topic has changed". Never content.

Rooms register their topics in `apps.py`, with the function that says which of
a topic's groups an actor may hear. A lost hint costs nothing, since a page
refetches its part when it reconnects and a waiter looks again after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from omniweb.core.layers import InProcessLayer

logger = logging.getLogger(__name__)

# (actor, reference or "") → the key of the group to hear, or None when the actor may not.
Authorise = Callable[[Any, str], UUID | None]

_topics: dict[str, Authorise] = {}


def topic_register(kind: str, authorise: Authorise) -> None:
    """Add a topic; a name that is taken fails at start."""
    if kind in _topics:
        raise ValueError(f"topic {kind} is already registered")
    _topics[kind] = authorise


def group_for(actor: Any, topic: str) -> str | None:
    """Return the group behind a topic such as `run:run_01k9…`, or None if the actor may not listen."""
    kind, _, reference = topic.partition(":")
    authorise = _topics.get(kind)
    key = authorise(actor, reference) if authorise else None
    return _group(kind, key) if key else None


def publish(kind: str, key: UUID) -> None:
    """Hint that a topic has changed, once the current transaction has committed."""
    transaction.on_commit(partial(_send, kind, key))


def _group(kind: str, key: UUID) -> str:
    return f"{kind}.{key.hex}"


def _send(kind: str, key: UUID) -> None:
    layer = get_channel_layer()
    message = {"type": "hint", "group": _group(kind, key)}
    try:
        if isinstance(layer, InProcessLayer):
            layer.group_send_now(message["group"], message)
        elif layer is not None:
            async_to_sync(layer.group_send)(message["group"], message)
    except Exception as error:  # noqa: BLE001 - each layer raises what its own client does
        # The act has happened; it must not seem to have failed because nobody heard of it.
        logger.warning("hint about %s was lost: %s", kind, error)


class Subscription:
    """A waiter's ear at one topic."""

    def __init__(self, layer: Any, channel: str) -> None:
        self._layer = layer
        self._channel = channel
        self._next: asyncio.Task[Any] | None = None

    async def wait(self, seconds: float) -> bool:
        """Wait for a hint; return False when none came in time."""
        # The receiving task outlives a time-out: cancelling it could lose a hint already taken.
        self._next = self._next or asyncio.ensure_future(self._layer.receive(self._channel))
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return False
        hint, self._next = self._next, None
        if error := hint.exception():
            logger.warning("hints cannot be heard: %s", error)
            await asyncio.sleep(seconds)
        return error is None

    async def close(self) -> None:
        """Stop listening."""
        if self._next is not None:
            self._next.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._next


@asynccontextmanager
async def subscribe(kind: str, key: UUID, *more: tuple[str, UUID]) -> AsyncIterator[Subscription]:
    """Listen to one or more topics; for code that has already checked who asks."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    groups = [_group(*topic) for topic in ((kind, key), *more)]
    for group in groups:
        with _deaf():
            await layer.group_add(group, channel)
    subscription = Subscription(layer, channel)
    try:
        yield subscription
    finally:
        await subscription.close()
        for group in groups:
            with _deaf():
                await layer.group_discard(group, channel)
        channel_forget(layer, channel)


@contextmanager
def _deaf() -> Iterator[None]:
    """Go on without hints where the layer cannot be reached: waiters look by themselves, too."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each layer raises what its own client does
        logger.warning("hints cannot be heard: %s", error)


def channel_forget(layer: Any, channel: str) -> None:
    """Free a channel's memory where the layer keeps it in this process."""
    if isinstance(layer, InProcessLayer):
        layer.channel_close(channel)
