"""Which version changed an answer, and asking a policy by hand."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from approvals.bisect import answers
from approvals.models import Decision, Policy
from approvals.questions import of_command
from approvals.selectors import policy_for, versions_asked
from approvals.services.policies import version_create
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People, bearer, browser_for

ASKING = """
name: open
mode: permissive
rules:
  ask:
    - {rule_id: ask_rm, capability: process.exec, command: {program: rm}}
"""


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that may not delete."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def policy(people: People, run: Run) -> Policy:
    """Its policy, which asked about deleting for one version and denies it again since."""
    policy = policy_for(people.team, "open")
    for source in (OPEN_POLICY, ASKING, OPEN_POLICY):
        version_create(actor=people.operator, policy=policy, source=source)
    return policy


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def test_every_version_is_asked_so_that_a_change_there_and_back_is_seen(policy: Policy) -> None:
    told = answers(versions_asked(policy), of_command("rm -rf build"))
    assert [(one.effect, one.by, one.is_change) for one in told] == [
        ("deny", "deny_rm", False),
        ("deny", "deny_rm", False),
        ("ask", "ask_rm", True),
        ("deny", "deny_rm", True),
    ]


def test_a_decision_says_which_versions_would_have_decided_otherwise(
    people: People, policy: Policy, run: Run
) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(capability="process.exec")
    client = browser_for(people.viewer)
    assert "Which version changed it?" in text(client.get(f"/decisions/{decision.ref}"))
    html = text(client.get(f"/decisions/{decision.ref}?versions=1"))
    assert "What 4 versions of open say" in html
    assert html.count("changed it") == 2


def test_a_decision_leads_to_a_kept_test_of_it(people: People, policy: Policy, run: Run) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(capability="process.exec")
    path = f"/policies/{policy.ref}/new?decision={decision.ref}&amp;expect=deny"
    client = browser_for(people.operator)
    assert path in text(client.get(f"/decisions/{decision.ref}"))
    source = client.get(path.replace("&amp;", "&")).context["form"]["source"].value()
    assert "- name: rm -rf build" in source
    assert "Keep as a test" not in text(
        browser_for(people.viewer).get(f"/decisions/{decision.ref}")
    )


def test_a_masked_decision_is_not_asked_again(people: People, policy: Policy, run: Run) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(capability="process.exec")
    decision.authority_request["command"][2] = "rm [REDACTED]"
    decision.save(update_fields=["authority_request"])
    client = browser_for(people.viewer)
    html = text(client.get(f"/decisions/{decision.ref}"))
    assert "can no longer be asked in full" in html
    answer = client.get(f"/api/v1/decisions/{decision.ref}/versions", headers=bearer(people.viewer))
    assert answer.json() == {"policy": policy.ref, "request": None, "answers": []}


def test_programs_ask_all_versions(people: People, policy: Policy, run: Run) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(capability="process.exec")
    client, headers = browser_for(people.viewer), bearer(people.viewer)
    of_decision = client.get(f"/api/v1/decisions/{decision.ref}/versions", headers=headers).json()
    by_hand = client.post(
        f"/api/v1/policies/{policy.ref}/bisect",
        {"command": "rm -rf build"},
        content_type="application/json",
        headers=headers,
    ).json()
    assert by_hand["answers"] == of_decision["answers"]
    assert [one["effect"] for one in by_hand["answers"]] == ["deny", "deny", "ask", "deny"]


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("policy_bisect", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_marks_the_changes(people: People, policy: Policy, run: Run) -> None:
    told = command("--policy", "open", "--command", "rm x").splitlines()
    assert [line[0] for line in told] == [" ", " ", "*", "*"]
    ask(people.agent, run, "rm x")
    decision = Decision.objects.get(capability="process.exec")
    found = json.loads(command("--decision", decision.ref, "--json"))
    assert [one["effect"] for one in found] == ["deny", "deny", "ask", "deny"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--command", "ls"), "--policy NAME"),
        (("--policy", "absent", "--command", "ls"), "no policy named absent"),
        (("--policy", "open", "--request", "{"), "not JSON"),
        (("--decision", "dec_x"), "no decision dec_x"),
    ],
)
def test_the_command_says_what_is_missing(
    policy: Policy, arguments: tuple[str, ...], why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        command(*arguments)


def test_a_command_typed_by_hand_is_explained_with_its_lens(people: People, policy: Policy) -> None:
    client = browser_for(people.viewer)
    path = f"/policies/{policy.ref}/explain"
    assert "Ask open about a command" in text(client.get(path))
    html = text(client.post(path, {"command": "ls; rm -rf <b>"}))
    assert "Denied</span></span> by version 4" in html
    assert "deny_rm" in html
    assert '<mark class="no"' in html
    assert "did not match" in html
    assert "changed it" in html
    assert "&lt;b&gt;" in html


def test_an_older_version_can_be_asked(people: People, policy: Policy) -> None:
    sent = {"command": "rm x", "version": "3"}
    html = text(browser_for(people.viewer).post(f"/policies/{policy.ref}/explain", sent))
    assert "Asks</span></span> by version 3" in html


def test_what_was_asked_in_a_decision_can_be_changed_and_asked_again(
    people: People, policy: Policy, run: Run
) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(capability="process.exec")
    answer = browser_for(people.viewer).get(
        f"/policies/{policy.ref}/explain?decision={decision.ref}"
    )
    assert json.loads(answer.context["form"]["request"].value()) == decision.authority_request


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"request": "{"}, "the request is not JSON"),
        ({"request": '{"capability": "process.exec", "risk": 1}'}, "unknown request field"),
        ({}, "Type a command"),
    ],
)
def test_a_question_nobody_can_answer_comes_back_with_what_is_wrong(
    people: People, policy: Policy, sent: dict[str, str], why: str
) -> None:
    answer = browser_for(people.viewer).post(f"/policies/{policy.ref}/explain", sent)
    assert answer.status_code == 422
    assert why in text(answer)
