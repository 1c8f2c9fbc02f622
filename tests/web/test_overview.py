"""The overview: its numbers, and the first steps where there are none yet."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from approvals.models import Decision, Request, RequestState
from omniweb.core.clock import now
from omniweb.core.ids import first_key, uuid7
from omniweb.web import figures
from sandboxes.models import Run, Sandbox
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote, work
from tests.people import People, browser_for

HTMX = {"HX-Request": "true"}


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that is asked about `git push`."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


def overview(client: Client) -> str:
    answer = client.get("/")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_where_nothing_has_run_it_shows_three_steps_and_the_demo(people: People) -> None:
    html = overview(browser_for(people.operator))
    assert "Nothing has run here yet" in html
    assert html.count("<li") >= 3
    assert "Run the demo agent" in html
    assert "Register your agent" in html


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_who_may_not_configure_gets_no_demo_button(people: People, name: str) -> None:
    client = browser_for(getattr(people, name))
    assert "Run the demo agent" not in overview(client)
    assert client.post("/demo").status_code == 403


def test_it_shows_what_waits_and_what_runs(people: People, run: Run) -> None:
    ask(people.agent, run, "git push")
    html = overview(browser_for(people.viewer))
    assert re.search(r'Waiting for you</span> <span class="tile-value wait">1<', html)
    assert re.search(r'Runs under way</span> <span class="tile-value">1<', html)
    assert "1 asked" in html


def test_another_team_sees_none_of_it(people: People, run: Run) -> None:
    ask(people.agent, run, "git push")
    assert "Nothing has run here yet" in overview(browser_for(people.outsider))
    assert figures.waiting(people.outsider).count == 0
    assert figures.decisions(people.outsider).totals == {"allow": 0, "ask": 0, "deny": 0}
    assert figures.providers(people.outsider) == []


def test_the_tiles_refetch_themselves_alone(people: People, run: Run) -> None:
    answer = browser_for(people.viewer).get("/", {"part": "tiles"}, headers=HTMX)
    html = answer.content.decode().strip()
    assert html.startswith('<div class="tiles"')
    assert "Decisions by day" not in html


def test_decisions_are_counted_by_day_and_effect(people: People, run: Run) -> None:
    for script in ("true", "git push", "rm -rf build"):
        ask(people.agent, run, script)
    made = figures.decisions(people.viewer)
    # The network of its sandbox was allowed, too.
    assert made.totals == {"allow": 2, "ask": 1, "deny": 1}
    assert len(made.days) == figures.DAYS
    assert made.days[-1][1] == {"good": 2, "wait": 1, "bad": 1}
    assert sum(made.days[0][1].values()) == 0
    older = Decision.objects.filter(effect="deny").get()
    for days in (figures.DAYS, figures.DAYS - 1, 3):
        older.pk = first_key(now() - timedelta(days=days))
        older.save(force_insert=True)
    made = figures.decisions(people.viewer)
    assert [at for at, (_, amounts) in enumerate(made.days) if amounts["bad"]] == [0, 10, 13]
    assert made.totals["deny"] == 3


def test_waits_are_those_of_requests_that_people_decided(people: People, run: Run) -> None:
    assert figures.waits(people.viewer).p50 is None
    request = request_of(ask(people.agent, run, "git push"))
    ask(people.agent, run, "git push elsewhere")
    vote(people.approver, request)
    Request.objects.filter(pk=request.pk).update(
        state=RequestState.SPENT, decided_at=request.created_at + timedelta(seconds=90)
    )
    found = figures.waits(people.viewer)
    assert (found.count, found.p50, found.p95) == (1, 90.0, 90.0)


def test_percentiles_are_the_smallest_value_that_covers_so_many() -> None:
    values = [float(value) for value in range(1, 21)]
    assert figures._percentile(values, 50) == 10.0
    assert figures._percentile(values, 95) == 19.0
    assert figures._percentile([7.0], 95) == 7.0


def test_commands_are_counted_where_they_ran_and_a_commands_failure_is_not_the_providers(
    people: People, run: Run
) -> None:
    work(ask(people.agent, run, "true"))
    work(ask(people.agent, run, "false"))
    ask(people.agent, run, "git push")
    [use] = figures.providers(people.viewer)
    assert (use.provider, use.executions, use.failed) == ("local", 2, 0)


def test_a_provider_that_could_not_make_a_sandbox_is_named_with_its_words(
    people: People, run: Run
) -> None:
    Sandbox.objects.filter(run=run).update(state="failed", reason="no room <b>left</b>")
    html = overview(browser_for(people.viewer))
    assert "1 sandbox" in html
    assert "no room &lt;b&gt;left&lt;/b&gt;" in html


def test_the_first_key_of_a_moment_comes_before_every_row_made_since() -> None:
    before = now()
    assert first_key(before) <= uuid7() < first_key(before + timedelta(minutes=1))


def test_a_policy_that_cannot_answer_is_told_where_everyone_looks(
    people: People, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browser_for(people.viewer)
    assert "could not answer" not in overview(client)

    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("approvals.policy.evaluator.CompiledPolicy._decide", broken)
    ask(people.agent, run, "ls")
    assert "open could not answer 1 time in the last day" in overview(client)
    assert "could not answer" not in overview(browser_for(people.outsider))
