"""What a rule decided, and since when it is there."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from approvals.hits import hits_lately, numbers_in_words
from approvals.models import Decision, Policy, PolicyVersion, RuleHit
from approvals.selectors import policy_for
from approvals.services.policies import version_create
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People, bearer, browser_for


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that may not delete."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def policy(people: People, run: Run) -> Policy:
    """Its policy, of which a rule decided twice before a version without it became active."""
    ask(people.agent, run, "rm -rf build")
    ask(people.agent, run, "rm -rf <b>")
    policy = policy_for(people.team, "open")
    version_create(actor=people.operator, policy=policy, source="name: open\nmode: strict\n")
    return policy


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def test_a_rule_shows_what_it_decided_and_which_versions_have_it(
    people: People, policy: Policy
) -> None:
    html = text(browser_for(people.viewer).get(f"/policies/{policy.ref}/rules/deny_rm"))
    assert "Decided 2 times in 30 days" in html
    assert html.count("<g><title>") == 30
    assert "2 bad</title>" in html
    assert "rm -rf build" in html
    assert "rm -rf &lt;b&gt;" in html
    assert "Not in the active version" in html
    assert "Nothing is deleted here." in html


def test_a_rule_that_never_decided_says_so(people: People, policy: Policy) -> None:
    html = text(browser_for(people.viewer).get(f"/policies/{policy.ref}/rules/ask_git_push"))
    assert "It has never decided anything" in html


def test_a_rule_no_version_has_is_not_found(people: People, policy: Policy) -> None:
    client = browser_for(people.viewer)
    assert client.get(f"/policies/{policy.ref}/rules/absent").status_code == 404
    assert (
        browser_for(people.outsider).get(f"/policies/{policy.ref}/rules/deny_rm").status_code == 404
    )


def test_a_policy_counts_the_hits_of_each_rule(people: People, policy: Policy) -> None:
    html = text(browser_for(people.viewer).get(f"/policies/{policy.ref}/1"))
    rows = re.findall(r"/rules/(\w+).*?Hits, 7 days\">(?:<span[^>]*>)?(\d+)", html)
    assert rows == [("deny_rm", "2"), ("ask_git_push", "0")]


def test_many_rules_are_counted_as_few_are(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    few = hits_lately(policy, ["deny_rm"])
    monkeypatch.setattr("approvals.hits.MAX_WALKS", 0)
    assert hits_lately(policy, ["deny_rm"]) == few == {"deny_rm": 2}


def test_programs_read_a_rule(people: People, policy: Policy) -> None:
    answer = browser_for(people.viewer).get(
        f"/api/v1/policies/{policy.ref}/rules/deny_rm", headers=bearer(people.viewer)
    )
    rule = answer.json()
    assert (rule["effect"], rule["versions"], len(rule["examples"])) == ("deny", [1], 2)
    assert rule["days"][-1]["hits"] + rule["days"][-2]["hits"] == 2


def test_hits_of_older_decisions_are_written_when_the_table_is_made(
    people: People, policy: Policy
) -> None:
    kept = sorted(RuleHit.objects.values_list("policy_id", "decision_id", "rule_id"))
    RuleHit.objects.all().delete()
    import_module("approvals.migrations.0006_rule_hits_of_old").fill(apps, None)
    assert sorted(RuleHit.objects.values_list("policy_id", "decision_id", "rule_id")) == kept
    assert len(kept) == sum(len(row.matched_rules) for row in Decision.objects.all())


def test_versions_are_named_as_ranges() -> None:
    versions = [PolicyVersion(number=number) for number in (1, 2, 3, 5, 7, 8)]
    assert numbers_in_words(versions) == "1 to 3, 5, 7 to 8"
