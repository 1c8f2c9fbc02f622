"""Trying a policy on what was decided before."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest

from approvals.models import Decision, Policy, Simulation
from approvals.over import Over, recorded
from approvals.selectors import policy_for
from approvals.services import simulations
from approvals.services.simulations import (
    simulation_cancel,
    simulation_run,
    simulation_start,
    simulations_ring,
)
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, NotPermitted, TooMany
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People, bearer, browser_for

# Asks about what the other one denies.
LOOSE = """
name: open
mode: permissive
rules:
  ask:
    - {rule_id: ask_git_push, capability: process.exec, command: {prefix: [git, push]}}
    - {rule_id: ask_rm, capability: process.exec, command: {program: rm}}
"""


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that may not delete."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def policy(people: People, run: Run) -> Policy:
    """The policy of that run, with three decisions under it."""
    for script in ("rm -rf build", "ls", "git push"):
        ask(people.agent, run, script)
    return policy_for(people.team, "open")


def started(people: People, policy: Policy, source: str = LOOSE, **over: Any) -> Simulation:
    return simulation_start(actor=people.operator, policy=policy, source=source, over=Over(**over))


def tried(people: People, policy: Policy, source: str = LOOSE, **over: Any) -> dict[str, Any]:
    simulation = started(people, policy, source, **over)
    simulation_run(simulation=simulation)
    simulation.refresh_from_db()
    assert simulation.state == "finished"
    return dict(simulation.result)


def test_a_draft_is_tried_on_all_decisions_and_says_what_would_differ(
    people: People, policy: Policy, run: Run
) -> None:
    result = tried(people, policy)
    assert result["seen"] == Decision.objects.filter(version__policy=policy).count()
    assert [(row["was"], row["now"], row["count"]) for row in result["directions"]] == [
        ("deny", "ask", 1)
    ]
    [flip] = result["examples"]
    assert flip["asked"] == "rm -rf build"
    assert (flip["was_by"], flip["now_by"]) == ("deny_rm", "ask_rm")
    assert (flip["run"], flip["agent"]) == (run.ref, "fix-bot")
    assert result["by_agent"][0]["looser"] == 1
    assert [one["decision"] for one in result["first_in_run"]] == [flip["decision"]]


def test_a_flip_leads_to_its_step(people: People, policy: Policy, run: Run) -> None:
    [flip] = tried(people, policy)["examples"]
    step = run.trajectory.steps.get(seq=flip["step"])
    assert step.payload["decision"] == flip["decision"]


@pytest.mark.parametrize(
    ("over", "seen"),
    [
        ({}, 3),
        ({"capability": "sandbox.*"}, 1),
        ({"under": 7}, 0),
        ({"until": now() - timedelta(days=1)}, 0),
        ({"since": now() - timedelta(days=1)}, 3),
    ],
)
def test_decisions_are_chosen_by_what_time_and_version(
    people: People, policy: Policy, over: dict[str, Any], seen: int
) -> None:
    over = {"capability": "process.*", **over}
    assert tried(people, policy, **over)["seen"] == seen


def test_what_other_policies_decided_counts_only_where_it_is_wanted(
    people: People, policy: Policy
) -> None:
    other = policy_for(people.team, "strict-production")
    assert tried(people, other)["seen"] == 0
    assert tried(people, other, everywhere=True)["seen"] == Decision.objects.count()
    assert tried(people, other, everywhere=True, agent=people.agent.agent)["seen"] > 0


def test_another_teams_decisions_are_never_read(people: People, policy: Policy) -> None:
    theirs = policy_for(people.outsider.team, "interactive-dev")
    simulation = simulation_start(
        actor=people.outsider, policy=theirs, source=LOOSE, over=Over(everywhere=True)
    )
    simulation_run(simulation=simulation)
    assert simulation.result["seen"] == 0


def test_a_text_with_an_error_is_refused_before_anything_begins(
    people: People, policy: Policy
) -> None:
    with pytest.raises(InvalidInput):
        started(people, policy, "name: x\nmode: lenient\n")
    assert not Simulation.objects.exists()


def test_only_who_may_configure_begins_one(people: People, policy: Policy) -> None:
    with pytest.raises(NotPermitted):
        simulation_start(actor=people.viewer, policy=policy, source=LOOSE, over=Over())


def test_a_team_does_not_begin_any_number_at_once(people: People, policy: Policy) -> None:
    for _ in range(simulations.MAX_AT_ONCE):
        last = started(people, policy)
    with pytest.raises(TooMany):
        started(people, policy)
    simulation_cancel(actor=people.operator, simulation=last)
    started(people, policy)


def test_one_that_is_cancelled_before_it_begins_never_runs(people: People, policy: Policy) -> None:
    simulation = started(people, policy)
    simulation_cancel(actor=people.operator, simulation=simulation)
    simulation_run(simulation=simulation)
    simulation.refresh_from_db()
    assert (simulation.state, simulation.result) == ("cancelled", {})


def test_a_cancel_is_heard_between_two_slices(
    people: People, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = started(people, policy)
    monkeypatch.setattr("approvals.over.CHUNK", 1)

    def cancelled_after_one(rows: Any) -> Any:
        for at, chunk in enumerate(recorded(rows)):
            if at == 1:
                row = Simulation.objects.get(pk=simulation.pk)
                simulation_cancel(actor=people.operator, simulation=row)
            yield chunk

    monkeypatch.setattr(simulations, "recorded", cancelled_after_one)
    simulation_run(simulation=simulation)
    simulation.refresh_from_db()
    assert (simulation.state, simulation.done) == ("cancelled", 1)


def test_two_workers_do_not_replay_the_same(people: People, policy: Policy) -> None:
    simulation = started(people, policy)
    twin = Simulation.objects.get(pk=simulation.pk)
    simulation_run(simulation=simulation)
    simulation_run(simulation=twin)
    assert twin.claim is None


def test_one_that_lost_its_worker_begins_anew(people: People, policy: Policy) -> None:
    simulation = started(people, policy)
    Simulation.objects.update(
        state="running", claim=uuid.uuid4(), lease_until=now() - timedelta(seconds=1)
    )
    simulations_ring()
    simulation.refresh_from_db()
    assert simulation.state == "queued"
    simulation_run(simulation=simulation)
    assert simulation.state == "finished"


def test_one_that_breaks_off_says_so(
    people: People, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = started(people, policy)
    monkeypatch.setattr(simulations, "findings", lambda tally: 1 / 0)
    simulation_run(simulation=simulation)
    simulation.refresh_from_db()
    assert (simulation.state, simulation.reason) == ("failed", "It broke off: ZeroDivisionError")


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def test_an_operator_tries_a_draft_in_the_browser(people: People, policy: Policy) -> None:
    client = browser_for(people.operator)
    path = f"/policies/{policy.ref}/try"
    assert "ask_git_push" in text(client.get(path))
    answer = client.post(path, {"source": LOOSE})
    page = answer.headers["Location"]
    assert "of <span" in text(client.get(page))
    simulation_run(simulation=Simulation.objects.get())
    html = text(client.get(page))
    assert "decisions would come out differently" in html
    assert "of them looser" in html
    assert "rm -rf build" in html
    assert "ask_rm" in html
    assert "would differ" in text(client.get(path))


def test_what_is_wrong_with_a_text_is_said_and_the_text_comes_back(
    people: People, policy: Policy
) -> None:
    answer = browser_for(people.operator).post(
        f"/policies/{policy.ref}/try", {"source": "name: x\nmode: lenient\n"}
    )
    assert answer.status_code == 422
    assert "line 2" in text(answer)
    assert "mode: lenient" in text(answer)


def test_one_is_cancelled_in_the_browser(people: People, policy: Policy) -> None:
    simulation = started(people, policy)
    client = browser_for(people.operator)
    client.post(f"/simulations/{simulation.ref}/cancel")
    assert "It was cancelled after" in text(client.get(f"/simulations/{simulation.ref}"))


def test_a_flip_becomes_a_kept_test_in_the_editor(people: People, policy: Policy) -> None:
    simulation = started(people, policy)
    simulation_run(simulation=simulation)
    client = browser_for(people.operator)
    html = text(client.get(f"/simulations/{simulation.ref}"))
    found = re.search(r'href="(/policies/[^"]+decision=[^"]+expect=deny)"', html)
    assert found
    answer = client.get(found[1].replace("&amp;", "&"))
    source = answer.context["form"]["source"].value()
    assert source.startswith(LOOSE.rstrip())
    assert "tests:\n- name: rm -rf build" in source
    assert source.rstrip().endswith("expect: deny")
    assert "metadata" not in source


def test_what_was_masked_makes_no_test(people: People, run: Run, policy: Policy) -> None:
    ask(people.agent, run, "curl -u me:hunter2hunter2 https://example.org")
    decision = Decision.objects.order_by("-id")[0]
    decision.authority_request["command"][2] = "curl -u [REDACTED] https://example.org"
    decision.save(update_fields=["authority_request"])
    path = f"/policies/{policy.ref}/new?decision={decision.ref}&expect=deny"
    assert browser_for(people.operator).get(path).status_code == 409


def test_programs_try_a_policy_and_read_the_result(people: People, policy: Policy) -> None:
    client, headers = browser_for(people.operator), bearer(people.operator)
    path = f"/api/v1/policies/{policy.ref}/simulations"
    sent = {"version": 1, "capability": "process.exec"}
    answer = client.post(path, sent, content_type="application/json", headers=headers)
    assert answer.status_code == 201
    made = answer.json()
    assert (made["state"], made["version"], made["total"]) == ("queued", 1, 3)
    simulation_run(simulation=Simulation.objects.get())
    found = client.get(f"/api/v1/simulations/{made['id']}", headers=headers).json()
    assert (found["state"], found["result"]["flips"]) == ("finished", 0)
    assert client.get(path, headers=headers).json()["items"] == [found]
    cancelled = client.post(f"/api/v1/simulations/{made['id']}/cancel", headers=headers).json()
    assert cancelled["state"] == "finished"


@pytest.mark.parametrize("sent", [{}, {"version": 1, "source": LOOSE}])
def test_programs_say_either_a_text_or_a_version(
    people: People, policy: Policy, sent: dict[str, Any]
) -> None:
    answer = browser_for(people.operator).post(
        f"/api/v1/policies/{policy.ref}/simulations",
        sent,
        content_type="application/json",
        headers=bearer(people.operator),
    )
    assert answer.status_code == 422
