"""A version that decides beside the one in force, and what happens when a policy breaks."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from approvals.models import Decision, Policy, PolicyVersion, Shadow, ShadowDecision
from approvals.policy.evaluator import CompiledPolicy
from approvals.selectors import policy_for
from approvals.services.policies import version_create
from approvals.services.shadows import shadow_end, shadow_start
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, NotPermitted
from omniweb.core.models import AuditEntry
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People, bearer, browser_for

LOOSER = OPEN_POLICY.replace("program: rm", "program: rmdir")


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that may not delete."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


@pytest.fixture
def policy(people: People, run: Run) -> Policy:
    """Its policy, with a draft that lets it delete."""
    policy = policy_for(people.team, "open")
    version_create(actor=people.operator, policy=policy, source=LOOSER, activate=False)
    return policy


def draft(policy: Policy) -> PolicyVersion:
    return PolicyVersion.objects.select_related("policy").get(policy=policy, number=2)


@pytest.fixture
def shadow(people: People, policy: Policy) -> Shadow:
    """That draft in the shadow."""
    return shadow_start(actor=people.operator, policy=policy, version=draft(policy), hours=1)


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def said() -> list[tuple[str, str, str, str, bool]]:
    rows = ShadowDecision.objects.order_by("decision_id")
    return list(rows.values_list("was", "was_by", "effect", "effect_by", "differs"))


def test_what_the_shadow_says_is_kept_and_not_obeyed(
    people: People, shadow: Shadow, run: Run
) -> None:
    assert ask(people.agent, run, "rm -rf build").state == "denied"
    ask(people.agent, run, "git push")
    assert said() == [
        ("deny", "deny_rm", "allow", "(mode)", True),
        ("ask", "ask_git_push", "ask", "ask_git_push", False),
    ]


def test_one_whose_time_is_up_says_nothing(people: People, shadow: Shadow, run: Run) -> None:
    Shadow.objects.update(until=now() - timedelta(seconds=1))
    ask(people.agent, run, "rm -rf build")
    assert said() == []


def test_one_that_was_ended_says_nothing(people: People, shadow: Shadow, run: Run) -> None:
    assert shadow_end(actor=people.operator, shadow=shadow)
    assert not shadow_end(actor=people.operator, shadow=shadow)
    ask(people.agent, run, "rm -rf build")
    assert said() == []


def test_a_shadow_that_breaks_off_is_recorded_and_costs_the_decision_nothing(
    people: People, shadow: Shadow, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PolicyVersion.compiled

    def broken(version: PolicyVersion) -> CompiledPolicy:
        if version.number == 2:
            raise RecursionError
        return real(version)

    monkeypatch.setattr(PolicyVersion, "compiled", broken)
    assert ask(people.agent, run, "ls").state == "queued"
    assert said() == [("allow", "(mode)", "", "RecursionError", False)]


def test_a_shadow_that_cannot_be_written_costs_the_decision_nothing(
    people: People, shadow: Shadow, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(rows: object) -> None:
        list(rows)  # type: ignore[call-overload]  # a generator
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM there_is_no_such_table")

    monkeypatch.setattr(ShadowDecision.objects, "bulk_create", refused)
    assert ask(people.agent, run, "ls").state == "queued"
    assert Decision.objects.filter(capability="process.exec", effect="allow").exists()


def test_there_is_one_at_a_time_and_its_time_is_bounded(
    people: People, policy: Policy, shadow: Shadow
) -> None:
    with pytest.raises(Conflict):
        shadow_start(actor=people.operator, policy=policy, version=draft(policy), hours=1)
    Shadow.objects.update(until=now() - timedelta(seconds=1))
    shadow_start(actor=people.operator, policy=policy, version=draft(policy), hours=1)
    with pytest.raises(InvalidInput):
        shadow_start(actor=people.operator, policy=policy, version=draft(policy), hours=0)


def test_the_active_version_needs_no_shadow(people: People, policy: Policy) -> None:
    assert policy.active_version is not None
    with pytest.raises(Conflict, match="decides already"):
        shadow_start(actor=people.operator, policy=policy, version=policy.active_version, hours=1)
    with pytest.raises(NotPermitted):
        shadow_start(actor=people.viewer, policy=policy, version=draft(policy), hours=1)


def test_a_shadow_is_started_watched_and_ended_in_the_browser(
    people: People, policy: Policy, run: Run
) -> None:
    client = browser_for(people.operator)
    assert "decide beside the active one" in text(client.get(f"/policies/{policy.ref}/2"))
    answer = client.post(f"/policies/{policy.ref}/shadow", {"version": "2", "hours": "24"})
    page = answer.headers["Location"]
    assert "Nothing was asked yet" in text(client.get(page))
    ask(people.agent, run, "rm -rf build")
    html = text(client.get(page))
    assert '<b class="bad num">1</b> of them looser' in html
    assert "rm -rf build" in html
    assert "1 of 1 differ" in text(client.get(f"/policies/{policy.ref}"))
    client.post(f"{page}/end")
    assert "Over</span>" in text(client.get(page))


def test_programs_start_watch_and_end_a_shadow(people: People, policy: Policy, run: Run) -> None:
    client, headers = browser_for(people.operator), bearer(people.operator)
    path = f"/api/v1/policies/{policy.ref}/shadows"
    made = client.post(
        path, {"version": 2, "hours": 2}, content_type="application/json", headers=headers
    ).json()
    ask(people.agent, run, "rm -rf build")
    found = client.get(f"/api/v1/shadows/{made['id']}", headers=headers).json()
    assert found["shadow"] == made
    assert (found["result"]["seen"], found["result"]["looser"]) == (1, 1)
    assert found["result"]["examples"][0]["asked"] == "rm -rf build"
    ended = client.post(f"/api/v1/shadows/{made['id']}/end", headers=headers).json()
    assert not ended["is_deciding"]
    assert client.get(path, headers=headers).json()["items"] == [ended]


@pytest.mark.parametrize("where", ["compiled", "evaluate", "explanation"])
def test_a_policy_that_breaks_denies_and_says_so_in_the_log_of_acts(
    people: People, run: Run, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    if where == "compiled":
        monkeypatch.setattr(PolicyVersion, "compiled", broken)
    elif where == "evaluate":
        monkeypatch.setattr(CompiledPolicy, "_decide", broken)
    else:
        monkeypatch.setattr("approvals.policy.evaluator.explain", broken)
    assert ask(people.agent, run, "ls").state == "denied"
    decision = Decision.objects.get(capability="process.exec")
    assert (decision.effect, decision.reason_code) == ("deny", "policy_error")
    entry = AuditEntry.objects.get(act="policy.error")
    assert entry.detail["decision"] == decision.ref
