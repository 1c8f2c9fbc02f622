"""A database, a broker and a channel layer that are away for a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError
from django.db.backends.utils import CursorWrapper
from django.test import override_settings

from omniweb.core.ids import uuid7
from omniweb.core.realtime import subscribe
from omniweb.core.waiting import wait_until
from sandboxes import tasks
from sandboxes.models import Execution, Sandbox
from sandboxes.services.reconcile import reconcile
from sandboxes.services.sandboxes import sandbox_lost
from tests.factories import ask
from tests.faults.scene import Bells, Scene, scene_new
from tests.people import People, bearer

pytestmark = pytest.mark.django_db(transaction=True)
# Nobody listens there.
NOWHERE = "redis://127.0.0.1:9"


@pytest.fixture
def scene(people: People, bells: Bells, tmp_path: Path) -> Scene:
    """A run that is ready."""
    return scene_new(people, bells, tmp_path)


class Outage:
    """Makes every statement fail while it lasts."""

    def __init__(self) -> None:
        self.lasts = False

    def begin(self, seconds: float) -> None:
        """Fail from now on, and recover after so many seconds."""
        self.lasts = True
        threading.Timer(seconds, self.end).start()

    def end(self) -> None:
        """Answer again."""
        self.lasts = False


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    """The database of this process, which can be made to fail."""
    made = Outage()
    execute = CursorWrapper.execute

    def failing(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        if made.lasts:
            raise OperationalError("the database is away")
        return execute(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", failing)
    yield made
    made.end()


def begin_once_there(path: Path, begin: Callable[[], None]) -> None:
    """Do something as soon as a file is there, from a thread of its own."""

    def watch() -> None:
        while not path.exists():
            threading.Event().wait(0.01)
        begin()

    threading.Thread(target=watch, daemon=True).start()


def test_a_command_that_ended_while_the_database_was_away_has_its_result(
    scene: Scene, outage: Outage
) -> None:
    begun = scene.folder / "begun"
    asked = ask(scene.people.agent, scene.run, f"echo early; touch {begun}; sleep 0.6; echo late")
    scene.decided()
    begin_once_there(begun, lambda: outage.begin(1.5))
    tasks.execution_run(asked.ref)
    asked = Execution.objects.select_related("stdout").get(pk=asked.pk)
    assert (asked.state, asked.exit_code) == ("finished", 0)
    assert asked.stdout is not None
    assert bytes(asked.stdout.data) == b"early\nlate\n"
    scene.finale()


def test_a_command_keeps_its_lease_through_an_outage(
    scene: Scene, outage: Outage, settings: Any
) -> None:
    settings.LEASE_SECONDS = 2
    begun = scene.folder / "begun"
    asked = ask(scene.people.agent, scene.run, f"touch {begun}; sleep 4.5")
    scene.decided()
    begin_once_there(begun, lambda: outage.begin(1.2))
    looked: list[str] = []

    def look() -> None:
        reconcile()
        looked.append(Execution.objects.get(pk=asked.pk).state)

    timer = threading.Timer(4, look)
    timer.start()
    tasks.execution_run(asked.ref)
    timer.join()
    assert looked == ["running"]
    asked.refresh_from_db()
    assert asked.state == "finished"


def test_a_sandbox_made_while_the_database_was_away_is_ready(
    scene: Scene, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxes.adapters.local import LocalProvider

    asked = scene.ask()
    sandbox_lost(sandbox=Sandbox.objects.select_related("run__trajectory").get(), reason="Gone")
    create = LocalProvider.create

    def then_away(self: LocalProvider, *args: Any, **kwargs: Any) -> Any:
        made = create(self, *args, **kwargs)
        outage.begin(0.7)
        return made

    monkeypatch.setattr(LocalProvider, "create", then_away)
    scene.bells.answer()
    assert Sandbox.objects.latest("id").state == "ready"
    asked.refresh_from_db()
    assert asked.state == "finished"


def test_a_waiter_waits_on_while_the_database_is_away(scene: Scene, outage: Outage) -> None:
    outage.begin(0.8)

    def look() -> bool:
        return Execution.objects.count() == 0

    assert async_to_sync(wait_until)(("run", uuid7()), look, bool, 10)


@pytest.mark.redis
def test_without_a_broker_an_act_stands_and_the_clock_carries_it_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from channels.layers import channel_layers

    layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [NOWHERE]}}
    with override_settings(CHANNEL_LAYERS={"default": layer}):
        channel_layers.backends.clear()
        asked = scene.ask(asks=True)
        scene.decided()
        scene.finale()
    channel_layers.backends.clear()
    asked.refresh_from_db()
    assert asked.state == "finished"


@pytest.mark.redis
def test_without_a_channel_layer_waiters_look_by_themselves(settings: Any) -> None:
    from channels.layers import channel_layers

    layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [NOWHERE]}}
    settings.CHANNEL_LAYERS = {"default": layer}
    channel_layers.backends.clear()

    async def scenario() -> list[bool]:
        async with subscribe("run", uuid7()) as news:
            return [await news.wait(0.1), await news.wait(0.1)]

    try:
        assert async_to_sync(scenario)() == [False, False]
    finally:
        channel_layers.backends.clear()


@pytest.mark.redis
def test_requests_that_cannot_be_counted_are_let_through(
    people: People, settings: Any, client: Any
) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": NOWHERE}}
    answer = client.get("/api/v1/me", headers=bearer(people.admin))
    assert answer.status_code == 200, answer.content
