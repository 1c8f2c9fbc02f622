"""The channel layer of a single process: hints from any thread reach any loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from omniweb.core.layers import InProcessLayer


def test_a_hint_from_another_thread_wakes_an_idle_loop() -> None:
    async def scenario() -> str:
        layer = InProcessLayer()
        channel = await layer.new_channel()
        await layer.group_add("inbox", channel)
        threading.Timer(0.05, layer.group_send_now, ("inbox", {"type": "hint"})).start()
        message = await asyncio.wait_for(layer.receive(channel), 5)
        return str(message["type"])

    assert asyncio.run(scenario()) == "hint"


def test_a_burst_from_four_threads_loses_nothing() -> None:
    async def scenario() -> int:
        layer = InProcessLayer(capacity=1000)
        channel = await layer.new_channel()
        await layer.group_add("runs", channel)

        def send() -> None:
            for number in range(125):
                layer.group_send_now("runs", {"type": "hint", "n": number})

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(500):
            await asyncio.wait_for(layer.receive(channel), 5)
        for thread in threads:
            thread.join()
        return 500

    assert asyncio.run(scenario()) == 500


def test_a_slow_reader_loses_hints_and_holds_up_nobody() -> None:
    async def scenario() -> tuple[int, int]:
        layer = InProcessLayer(capacity=10)
        slow, quick = await layer.new_channel(), await layer.new_channel()
        await layer.group_add("runs", slow)
        await layer.group_add("runs", quick)
        received = 0
        for _ in range(30):
            layer.group_send_now("runs", {"type": "hint"})
            await asyncio.wait_for(layer.receive(quick), 5)
            received += 1
        return received, layer._channels[slow][1].qsize()

    assert asyncio.run(scenario()) == (30, 10)


def test_a_closed_loop_is_forgotten() -> None:
    layer = InProcessLayer()

    async def open_channel() -> str:
        channel = await layer.new_channel()
        await layer.group_add("runs", channel)
        return str(channel)

    channel = asyncio.run(open_channel())
    layer.group_send_now("runs", {"type": "hint"})
    assert channel not in layer._channels
    assert "runs" not in layer._groups


def test_leaving_a_group_keeps_the_channel() -> None:
    async def scenario() -> dict[str, str]:
        layer = InProcessLayer()
        channel = await layer.new_channel()
        await layer.group_add("inbox", channel)
        await layer.group_discard("inbox", channel)
        await layer.send(channel, {"type": "hint"})
        return dict(await asyncio.wait_for(layer.receive(channel), 5))

    assert asyncio.run(scenario()) == {"type": "hint"}


@pytest.mark.redis
def test_a_redis_socket_idle_for_longer_than_the_clients_timeout_still_hears(
    redis_url: str,
) -> None:
    from channels_redis.core import RedisChannelLayer

    async def scenario() -> str:
        hosts = [{"address": redis_url, "socket_timeout": None}]
        layer = RedisChannelLayer(hosts=hosts, capacity=2000)
        channel = await layer.new_channel()
        await layer.group_add("inbox", channel)
        waiting = asyncio.create_task(layer.receive(channel))
        await asyncio.sleep(7)
        await layer.group_send("inbox", {"type": "hint"})
        message = await asyncio.wait_for(waiting, 5)
        await layer.close_pools()
        return str(message["type"])

    assert asyncio.run(scenario()) == "hint"
