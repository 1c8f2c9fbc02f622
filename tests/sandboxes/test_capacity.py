"""An environment has so many sandboxes at once, and agents take turns at the rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from omniweb.accounts.permissions import Actor
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, NotPermitted
from omniweb.core.models import AuditEntry
from sandboxes.models import Environment, Run, Sandbox
from sandboxes.protocol.words import still_waiting
from sandboxes.services.capacity import (
    capacity_claim,
    capacity_fill,
    capacity_line,
    capacity_next,
    capacity_set,
)
from sandboxes.services.reconcile import reconcile
from sandboxes.services.runs import run_open
from sandboxes.services.sandboxes import sandbox_current, sandbox_end
from sandboxes.tasks import sandbox_provision, sandbox_terminate
from sandboxes.turns import in_turn
from tests.factories import FREE_POLICY, ask, policy_use, run_again
from tests.people import People, agent_actor, bearer, browser_for

Bells = list[tuple[str, dict[str, str]]]


@pytest.fixture(autouse=True)
def bells(monkeypatch: pytest.MonkeyPatch) -> Bells:
    """Every doorbell that is rung; the tests do the workers' part themselves."""
    rung: Bells = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: rung.append((name, kwargs))
    )
    return rung


@pytest.fixture
def environment(people: People) -> Environment:
    """Where the agents run: one sandbox at a time."""
    policy_use(people.agent, FREE_POLICY, name="free")
    found = Environment.objects.get(team=people.team)
    capacity_set(actor=people.operator, environment=found, max_sandboxes=1)
    return found


@pytest.fixture
def other(people: People, environment: Environment) -> Actor:
    """A second agent in the same place."""
    assert people.owner.user
    return agent_actor(
        people.team, people.owner.user, environment=environment, policy="free", name="other-bot"
    )


def opened(agent: Actor) -> Sandbox:
    """Open a run; return the sandbox it wants."""
    found = sandbox_current(run_open(actor=agent))
    assert found
    return found


def try_all() -> set[Sandbox]:
    """Let workers try whatever is intended; return those that are ready."""
    for sandbox in Sandbox.objects.filter(state="intended").order_by("-id"):
        sandbox_provision(sandbox.ref)
    return set(Sandbox.objects.filter(state="ready"))


def ended(people: People, sandbox: Sandbox) -> None:
    """End a sandbox as a person and a worker do."""
    one = Sandbox.objects.select_related("run__trajectory").get(pk=sandbox.pk)
    assert sandbox_end(actor=people.operator, sandbox=one)
    sandbox_terminate(sandbox.ref)


T0 = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("waiting", "served", "order"),
    [
        ("", {}, ""),
        ("a1 a2 a3", {}, "a1 a2 a3"),
        ("a1 a2 a3 b1", {}, "a1 b1 a2 a3"),
        ("a1 a2 b1 b2 c1", {"a": 2, "b": 1}, "c1 b1 a1 b2 a2"),
        ("a1 b1", {"a": 1}, "b1 a1"),
    ],
)
def test_agents_take_turns_first_come_within_each(
    waiting: str, served: dict[str, int], order: str
) -> None:
    rows = [(key[0], key) for key in waiting.split()]
    at = {agent: T0 + timedelta(hours=hours) for agent, hours in served.items()}
    assert in_turn(rows, at) == order.split()


def test_the_next_sandbox_waits_for_room(people: People, environment: Environment) -> None:
    first, second = opened(people.agent), opened(people.agent)
    assert try_all() == {first}
    second.refresh_from_db()
    assert second.state == "intended"
    ended(people, first)
    assert try_all() == {second}


def test_one_agents_many_runs_are_not_all_before_anothers_one(
    people: People, environment: Environment, other: Actor
) -> None:
    mine = [opened(people.agent) for _ in range(3)]
    theirs = opened(other)
    order = []
    for _ in range(4):
        (ready,) = try_all()
        order.append(ready)
        ended(people, ready)
    assert order == [mine[0], theirs, mine[1], mine[2]]


def test_of_two_workers_one_gets_the_last_place(people: People, environment: Environment) -> None:
    opened(people.agent)
    opened(people.agent)
    rows = Sandbox.objects.select_related("run__environment").order_by("id")
    # Both have seen room and each believes that it is its turn.
    seen = list(rows)
    lease = now() + timedelta(minutes=1)
    assert [capacity_claim(sandbox=one, lease_until=lease) for one in seen] == [True, False]
    assert not capacity_claim(sandbox=rows[0], lease_until=lease)


@pytest.mark.django_db(transaction=True)
def test_what_ends_rings_whoever_is_next(
    people: People, environment: Environment, bells: Bells
) -> None:
    first, second = opened(people.agent), opened(people.agent)
    try_all()
    bells.clear()
    ended(people, first)
    assert ("sandboxes.capacity_fill", {"environment": environment.ref}) in bells
    capacity_fill(environment=environment)
    assert bells[-1] == ("sandboxes.sandbox_provision", {"sandbox": second.ref})


@pytest.mark.django_db(transaction=True)
def test_a_lost_doorbell_is_rung_by_the_sweep(
    people: People, environment: Environment, bells: Bells
) -> None:
    waiting = opened(people.agent)
    late = opened(people.agent)
    Sandbox.objects.update(created_at=now() - timedelta(minutes=1))
    bells.clear()
    reconcile()
    rung = [kwargs["sandbox"] for name, kwargs in bells if name == "sandboxes.sandbox_provision"]
    assert rung == [waiting.ref]
    assert capacity_line(environment) == [waiting.pk, late.pk]


def test_what_its_provider_does_not_make_yet_keeps_nobody_back(
    people: People, environment: Environment
) -> None:
    first, second = opened(people.agent), opened(people.agent)
    Sandbox.objects.filter(pk=first.pk).update(not_before=now() + timedelta(minutes=5))
    assert capacity_next(environment) == [second.pk]


def test_waiting_for_room_is_told(people: People, environment: Environment) -> None:
    opened(people.agent)
    waiting = run_again(opened(people.agent).run)
    third: Run = opened(people.agent).run
    try_all()
    asked = ask(people.agent, waiting, "echo hello")
    assert "has no room: it may have 1 sandbox at once" in still_waiting(asked)
    assert "it is next" in browser_for(people.viewer).get(f"/runs/{waiting.ref}").text
    assert "1 before it" in browser_for(people.viewer).get(f"/runs/{third.ref}").text
    page = browser_for(people.viewer).get(f"/environments/{environment.ref}").text
    assert "1 of 1 sandboxes, 2 waiting" in page


def test_more_room_lets_the_waiting_in(people: People, environment: Environment) -> None:
    both = {opened(people.agent), opened(people.agent)}
    assert len(try_all()) == 1
    capacity_set(actor=people.operator, environment=environment, max_sandboxes=None)
    assert try_all() == both


@pytest.mark.parametrize("most", [0, -1, 10_001])
def test_a_limit_that_says_nothing_is_refused(
    people: People, environment: Environment, most: int
) -> None:
    with pytest.raises(InvalidInput, match="or nothing for no limit"):
        capacity_set(actor=people.operator, environment=environment, max_sandboxes=most)


def test_a_limit_is_set_by_those_who_configure_and_audited(
    people: People, environment: Environment
) -> None:
    with pytest.raises(NotPermitted):
        capacity_set(actor=people.approver, environment=environment, max_sandboxes=3)
    path = f"/environments/{environment.ref}/capacity"
    answer = browser_for(people.operator).post(path, {"max_sandboxes": "7"}, follow=True)
    assert "0 of 7 sandboxes" in answer.text
    answer = browser_for(people.operator).post(path, {"max_sandboxes": "seven"}, follow=True)
    assert "must be 1 to 10000" in answer.text
    entry = AuditEntry.objects.filter(act="environment.capacity").latest("id")
    assert entry.detail == {"max_sandboxes": 7}


@pytest.mark.parametrize(
    ("sent", "kept"), [({"max_sandboxes": 5}, 5), ({"max_sandboxes": None}, None), ({}, 1)]
)
def test_the_api_sets_and_takes_away_a_limit(
    people: People, environment: Environment, sent: dict[str, Any], kept: int | None
) -> None:
    client = Client(headers=bearer(people.operator))
    path = f"/api/v1/environments/{environment.ref}"
    answer = client.patch(path, sent, content_type="application/json")
    assert answer.json()["max_sandboxes"] == kept
