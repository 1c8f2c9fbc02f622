"""Hints: who may hear a topic, and when a hint is sent."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import async_to_sync
from channels.db import database_sync_to_async
from django.db import transaction

from omniweb.core.ids import uuid7
from omniweb.core.realtime import group_for, publish, subscribe, topic_register
from tests.factories import run_ready
from tests.people import People


def test_a_topic_is_registered_once() -> None:
    with pytest.raises(ValueError, match="already registered"):
        topic_register("inbox", lambda actor, reference: None)


def test_people_hear_their_teams_inbox_and_agents_hear_none(people: People) -> None:
    group = f"inbox.{people.team.id.hex}"
    assert group_for(people.viewer, "inbox") == group
    assert group_for(people.outsider, "inbox") != group
    assert group_for(people.agent, "inbox") is None


def test_a_run_is_heard_by_its_team_alone(people: People) -> None:
    run = run_ready(people.agent, people.approver)
    assert group_for(people.viewer, f"run:{run.ref}") == f"run.{run.id.hex}"
    assert group_for(people.outsider, f"run:{run.ref}") is None
    assert group_for(people.viewer, "run:nonsense") is None


def test_nobody_hears_a_topic_there_is_not(people: People) -> None:
    assert group_for(people.admin, "secrets") is None


@pytest.mark.django_db(transaction=True)
def test_a_hint_comes_after_the_commit_and_not_after_a_rollback() -> None:
    key = uuid7()

    def fail() -> None:
        with transaction.atomic():
            publish("run", key)
            transaction.set_rollback(True)

    def succeed() -> None:
        with transaction.atomic():
            publish("run", key)

    async def scenario() -> tuple[bool, bool]:
        async with subscribe("run", key) as subscription:
            await database_sync_to_async(fail)()
            early = await subscription.wait(0.2)
            await database_sync_to_async(succeed)()
            return early, await subscription.wait(5)

    assert async_to_sync(scenario)() == (False, True)


def test_a_wait_that_ran_out_loses_no_later_hint() -> None:
    key = uuid7()

    async def scenario() -> list[bool]:
        from channels.layers import get_channel_layer

        async with subscribe("run", key) as subscription:
            first = await subscription.wait(0.05)
            await get_channel_layer().group_send(f"run.{key.hex}", {"type": "hint"})
            return [first, await subscription.wait(5)]

    assert asyncio.run(scenario()) == [False, True]
