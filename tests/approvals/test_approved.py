"""From approvals to rules."""

from __future__ import annotations

import re
from typing import Any

import pytest

from approvals.approved import approved
from approvals.models import Decision, Policy, Simulation
from approvals.selectors import policy_for
from approvals.services.simulations import simulation_run
from sandboxes.models import Run
from tests.factories import ask, policy_use, request_of, run_ready, vote
from tests.people import People, bearer, browser_for

ASKS = """
name: asks
mode: interactive
rules:
  ask:
    - {rule_id: ask_push, capability: process.exec, command: {prefix: [git, push]}}
  allow:
    - {rule_id: allow_setup, capability: "sandbox.*"}
"""


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that has to ask for every command."""
    policy_use(people.agent, ASKS, name="asks")
    return run_ready(people.agent, people.approver)


@pytest.fixture
def policy(people: People, run: Run) -> Policy:
    """Its policy, under which people said yes four times and left one waiting."""
    for script in ("npm run build", "npm run build", "npm run lint", "git push"):
        vote(people.approver, request_of(ask(people.agent, run, script)))
    ask(people.agent, run, "npm publish")
    return policy_for(people.team, "asks")


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def test_what_was_approved_is_listed_once_with_how_often(policy: Policy) -> None:
    assert [(one.text, one.times, one.by) for one in approved(policy)] == [
        ("npm run build", 2, ""),
        ("git push", 1, "ask_push"),
        ("npm run lint", 1, ""),
    ]


def test_rules_are_suggested_tried_and_edited_in_the_browser(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    path = f"/policies/{policy.ref}/suggest"
    assert "npm run build" in text(client.get(path))
    chosen = [one.request for one in approved(policy)]
    answer = client.post(path, {"requests": chosen})
    html = text(answer)
    assert "One rule would allow 2 of what you chose; 1 would still not be allowed" in html
    assert "ask_push" in html
    page = client.post(
        f"/policies/{policy.ref}/try", {"source": answer.context["found"].source}
    ).headers["Location"]
    simulation_run(simulation=Simulation.objects.get())
    assert "npm run lint" in text(client.get(page))
    editor = client.get(f"/policies/{policy.ref}/new?simulation={Simulation.objects.get().ref}")
    assert "allow_npm_run" in editor.context["form"]["source"].value()


def test_nothing_chosen_is_said(people: People, policy: Policy) -> None:
    answer = browser_for(people.operator).post(f"/policies/{policy.ref}/suggest", {})
    assert answer.status_code == 422
    assert "choose 1 to 200 approved requests" in text(answer)


def test_what_was_masked_cannot_be_chosen(people: People, policy: Policy) -> None:
    for row in Decision.objects.filter(capability="process.exec"):
        row.authority_request["command"][2] = "npm login [REDACTED]"
        row.save(update_fields=["authority_request"])
    assert all(one.is_masked for one in approved(policy))
    chosen = [one.request for one in approved(policy)]
    client = browser_for(people.operator)
    assert client.post(f"/policies/{policy.ref}/suggest", {"requests": chosen}).status_code == 409


def test_programs_ask_for_rules(people: People, policy: Policy) -> None:
    answer = browser_for(people.operator).post(
        f"/api/v1/policies/{policy.ref}/suggest",
        {"requests": [one.request for one in approved(policy)]},
        content_type="application/json",
        headers=bearer(people.operator),
    )
    found = answer.json()
    assert [rule["command"] for rule in found["rules"]] == [
        {"prefix": ["npm", "run", ["build", "lint"]]},
    ]
    assert [(one["effect"], one["by"]) for one in found["left"]] == [("ask", "ask_push")]
    assert len(found["covered"]) == 2


def test_another_teams_requests_are_not_found_among_ours(people: People, policy: Policy) -> None:
    theirs = policy_for(people.outsider.team, "interactive-dev")
    answer = browser_for(people.outsider).post(
        f"/policies/{theirs.ref}/suggest", {"requests": [approved(policy)[0].request]}
    )
    assert answer.status_code == 409
