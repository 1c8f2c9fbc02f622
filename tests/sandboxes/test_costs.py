"""What sandboxes cost, and the prices that says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, NotPermitted
from omniweb.core.models import AuditEntry
from sandboxes.costs import Rate, added, cost_of, written
from sandboxes.models import Environment, Price, Run, Sandbox
from sandboxes.services.prices import price_remove, price_set, run_cost
from tests.factories import FREE_POLICY, policy_use, run_ready
from tests.people import People, bearer, browser_for

T0 = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def rate(starts: float, per_hour: str, paused: str = "0", **more: Any) -> Rate:
    kept = {"currency": "USD", **more}
    return Rate(
        starts_at=at(starts), per_hour=Decimal(per_hour), paused_per_hour=Decimal(paused), **kept
    )


@pytest.mark.parametrize(
    ("rates", "pauses", "cost"),
    [
        ([], [], {}),
        ([rate(-1, "2")], [], {"USD": 8}),
        ([rate(1, "2")], [], {"USD": 6}),
        ([rate(5, "2")], [], {}),
        ([rate(-1, "2"), rate(2, "3")], [], {"USD": 10}),
        ([rate(-1, "2", "1")], [(at(1), at(2))], {"USD": 7}),
        ([rate(-1, "2", "1"), rate(2, "4", "0")], [(at(1), at(3))], {"USD": 7}),
        # A price of the environment's own goes first, whichever is newer.
        ([rate(-1, "1", is_own=True), rate(1, "9")], [], {"USD": 4}),
        ([rate(-1, "9"), rate(2, "1", is_own=True)], [], {"USD": 20}),
        ([rate(-1, "1"), rate(2, "1", currency="EUR")], [], {"USD": 2, "EUR": 2}),
        ([rate(-1, "0")], [], {"USD": 0}),
    ],
)
def test_time_costs_what_its_rate_says(
    rates: list[Rate], pauses: list[tuple[datetime, datetime]], cost: dict[str, int]
) -> None:
    assert cost_of((at(0), at(4)), pauses, rates) == cost


def test_a_clock_that_was_set_back_costs_nothing() -> None:
    assert cost_of((at(1), at(0)), [], [rate(-1, "5")]) == {}


def test_costs_are_added_by_currency_and_written_for_people() -> None:
    cost = added([{"USD": Decimal("0.5")}, {"EUR": Decimal("0.00312")}, {"USD": Decimal(1)}])
    assert written(cost) == "0.0031 EUR, 1.50 USD"
    assert written({"USD": Decimal("1234.5")}) == "1,234.50 USD"
    assert written({"USD": Decimal(0)}) == "0.00 USD"
    assert written({}) == ""


@pytest.fixture
def run(people: People) -> Run:
    """A run whose sandbox has been ready for two hours."""
    policy_use(people.agent, FREE_POLICY)
    found = run_ready(people.agent, people.approver)
    Sandbox.objects.update(ready_at=now() - timedelta(hours=2))
    return found


def priced(people: People, per_hour: str, **more: Any) -> Price:
    """Set a price that has held for a long time."""
    values: dict[str, Any] = {
        "provider": "local",
        "currency": "USD",
        "starts_at": now() - timedelta(days=9),
        **more,
    }
    return price_set(actor=people.operator, per_hour=Decimal(per_hour), **values)


def test_nothing_is_shown_where_no_price_is_set(people: People, run: Run) -> None:
    assert run_cost(run) == {}
    assert "Sandbox cost" not in browser_for(people.viewer).get(f"/runs/{run.ref}").text


def test_pages_and_api_show_the_cost_so_far(people: People, run: Run) -> None:
    priced(people, "1.25")
    viewer, sandbox = browser_for(people.viewer), run.sandboxes.get()
    for path in (f"/runs/{run.ref}", "/sandboxes", f"/sandboxes/{sandbox.ref}"):
        assert "2.50 USD" in viewer.get(path).text
    client = Client(headers=bearer(people.viewer))
    told = client.get(f"/api/v1/runs/{run.ref}").json()["cost"]
    assert told["USD"].startswith("2.50")
    (listed,) = client.get("/api/v1/sandboxes").json()["items"]
    assert listed["cost"]["USD"].startswith("2.50")


def test_an_environments_own_price_goes_first_and_pauses_have_theirs(
    people: People, run: Run
) -> None:
    environment = Environment.objects.get(team=people.team)
    priced(people, "100")
    priced(people, "2", environment=environment, paused_per_hour=Decimal("0.5"))
    ended = now()
    pause = [(ended - timedelta(hours=1)).isoformat(), (ended - timedelta(minutes=30)).isoformat()]
    Sandbox.objects.update(
        ready_at=ended - timedelta(hours=2), ended_at=ended, state="terminated", pauses=[pause]
    )
    assert run_cost(run) == {"USD": Decimal("3.25")}


def test_of_two_prices_from_one_moment_on_the_later_holds(people: People, run: Run) -> None:
    since = now() - timedelta(days=1)
    priced(people, "100", starts_at=since)
    priced(people, "1", starts_at=since)
    assert round(run_cost(run)["USD"]) == 2


def test_another_teams_price_makes_no_cost(people: People, run: Run) -> None:
    price = priced(people, "1")
    Price.objects.filter(pk=price.pk).update(team=people.outsider.team)
    assert run_cost(run) == {}


def test_a_price_that_was_taken_back_is_gone_and_audited(people: People, run: Run) -> None:
    price_remove(actor=people.operator, price=priced(people, "1"))
    assert run_cost(run) == {}
    acts = AuditEntry.objects.filter(act__startswith="price.").values_list("act", flat=True)
    assert sorted(acts) == ["price.remove", "price.set"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"per_hour": Decimal("NaN")}, "must be a number from 0"),
        ({"per_hour": Decimal(-1)}, "must be a number from 0"),
        ({"per_hour": Decimal("0.1234567")}, "more than 6 places"),
        ({"paused_per_hour": Decimal("Infinity")}, "must be a number from 0"),
        ({"currency": "dollars"}, "three capital letters"),
        ({"provider": "nowhere"}, "must be a registered sandbox provider"),
        ({"provider": "docker", "environment": True}, "is an environment of local"),
        ({"starts_at": datetime(2026, 11, 1)}, "must say its time zone"),  # noqa: DTZ001
    ],
)
def test_a_price_that_says_nothing_is_refused(
    people: People, wrong: dict[str, Any], words: str
) -> None:
    if "environment" in wrong:
        wrong = {**wrong, "environment": Environment.objects.get(team=people.team)}
    values = {"provider": "local", "per_hour": Decimal(1), "currency": "USD", **wrong}
    with pytest.raises(InvalidInput, match=words):
        price_set(actor=people.operator, **values)


def test_prices_are_for_those_who_configure(people: People) -> None:
    with pytest.raises(NotPermitted):
        price_set(actor=people.viewer, provider="local", per_hour=Decimal(1), currency="USD")
    assert "Set the price" not in browser_for(people.viewer).get("/providers").text


def test_the_page_keeps_the_table(people: People) -> None:
    client = browser_for(people.operator)
    sent = {
        "provider": "e2b",
        "per_hour": "100",
        "currency": "usd",
        "starts_at": "2026-11-01T08:00",
    }
    assert "100 USD" in client.post("/prices", sent, follow=True).text
    price = Price.objects.get()
    assert price.starts_at == datetime(2026, 11, 1, 8, tzinfo=UTC)
    for field, value, words in (
        ("per_hour", "a lot", "Per hour: must be a number"),
        ("starts_at", "yesterday", "From: must be a date and a time"),
    ):
        assert words in client.post("/prices", {**sent, field: value}, follow=True).text
    client.post(f"/prices/{price.ref}/remove")
    assert not Price.objects.exists()


def test_the_api_keeps_the_table(people: People) -> None:
    client = Client(headers=bearer(people.operator))
    environment = Environment.objects.get(team=people.team)
    body = {
        "provider": "local",
        "environment": environment.ref,
        "per_hour": "0.0828",
        "currency": "USD",
    }
    made = client.post("/api/v1/prices", body, content_type="application/json").json()
    assert (made["per_hour"], made["environment"]) == ("0.0828", environment.ref)
    assert [one["id"] for one in client.get("/api/v1/prices").json()["items"]] == [made["id"]]
    assert client.delete(f"/api/v1/prices/{made['id']}").status_code == 204
    assert not Price.objects.exists()
