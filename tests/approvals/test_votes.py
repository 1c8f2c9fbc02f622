"""Deciding requests: who may, on what, and what comes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from approvals.eligibility import why_not_decide
from approvals.models import Grant, Request, Scope, Verdict, Vote
from approvals.services.requests import requests_expire
from approvals.services.votes import vote_cast
from omniweb.core.clock import now
from omniweb.core.errors import AlreadyDecided, InvalidInput, NotPermitted, Stale
from omniweb.core.models import AuditEntry
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote
from tests.people import People

SEPARATED = """
name: separated
mode: permissive
rules:
  ask:
    - rule_id: ask_git
      capability: process.exec
      command: {program: git}
      constraints:
        approval_expires_seconds: 300
        scopes: [once]
        approvals: {exclude_owner: true}
"""


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that is asked about `git push`."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


def test_an_approval_is_recorded_with_its_voter(people: People, run: Run) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    vote(people.approver, request, reason="the branch is mine")
    request.refresh_from_db()
    assert (request.state, request.decided_by) == ("approved", people.approver.user)
    kinds = list(run.trajectory.steps.values_list("kind", flat=True))
    assert kinds[-4:] == ["authority_decision", "request_opened", "vote", "request_decided"]
    entry = AuditEntry.objects.get(act="request.approve", subject=request.ref)
    assert (entry.actor, entry.detail["reason"]) == ("approver@example.org", "the branch is mine")


@pytest.mark.parametrize("name", ["operator", "auditor", "viewer"])
def test_roles_that_may_not_decide_are_told_which_may(people: People, run: Run, name: str) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    with pytest.raises(NotPermitted, match="needs the role approver or admin"):
        vote(getattr(people, name), request)
    assert Vote.objects.filter(request=request).count() == 0


def test_an_agent_never_decides(people: People, run: Run) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    with pytest.raises(NotPermitted, match="Only a person may decide"):
        vote(people.agent, request)


def test_the_owner_may_not_decide_where_the_policy_says_so(people: People) -> None:
    policy_use(people.agent, SEPARATED, name="separated")
    run = run_ready(people.agent, people.approver)
    request = request_of(ask(people.agent, run, "git push"))
    assert why_not_decide(people.owner, request) == (
        "You own this agent, and the policy wants someone else to decide"
    )
    with pytest.raises(NotPermitted, match="someone else to decide"):
        vote(people.owner, request)
    vote(people.approver, request)


def test_an_admin_who_owns_the_agent_is_not_exempt(people: People) -> None:
    policy_use(people.agent, SEPARATED, name="separated")
    assert people.agent.agent is not None
    assert people.admin.user is not None
    people.agent.agent.owner = people.admin.user
    people.agent.agent.save(update_fields=["owner"])
    run = run_ready(people.agent, people.approver)
    request = request_of(ask(people.agent, run, "git push"))
    with pytest.raises(NotPermitted, match="someone else to decide"):
        vote(people.admin, request)


def test_the_policy_says_which_scopes_there_are_and_how_long_it_waits(people: People) -> None:
    policy_use(people.agent, SEPARATED, name="separated")
    run = run_ready(people.agent, people.approver)
    request = request_of(ask(people.agent, run, "git push"))
    assert request.scopes == ["once"]
    assert timedelta(seconds=295) < request.expires_at - now() <= timedelta(seconds=300)
    with pytest.raises(InvalidInput, match="can be approved for: once"):
        vote(people.approver, request, scope=Scope.RUN)


def test_what_is_approved_is_what_was_shown(people: People, run: Run) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    shown = request.review_token
    Request.objects.filter(pk=request.pk).update(digest="0" * 64)
    with pytest.raises(Stale, match="has changed since you saw it"):
        vote_cast(
            actor=people.approver,
            request=request,
            verdict=Verdict.APPROVE,
            review_token=shown,
            scope=Scope.ONCE,
        )
    request.refresh_from_db()
    assert request.state == "open"
    assert Vote.objects.filter(request=request).count() == 0


def test_a_late_vote_learns_who_was_first(people: People, run: Run) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    vote(people.approver, request, Verdict.REJECT)
    with pytest.raises(AlreadyDecided, match=r"^approver@example.org was first and rejected"):
        vote(people.second_approver, request)


def test_nobody_in_time_is_a_no(people: People, run: Run) -> None:
    asked = ask(people.agent, run, "git push")
    request = request_of(asked)
    with time_machine.travel(now() + timedelta(days=1, seconds=1)):
        assert requests_expire() == 1
        assert requests_expire() == 0
    request.refresh_from_db()
    asked.refresh_from_db()
    assert (request.state, asked.state) == ("expired", "expired")
    assert asked.reason == "Nobody decided in time"
    with pytest.raises(AlreadyDecided, match="expired before anyone decided"):
        vote(people.approver, request)


def test_a_yes_for_the_run_becomes_a_grant(people: People, run: Run) -> None:
    request = request_of(ask(people.agent, run, "git push"))
    vote(people.approver, request, scope=Scope.RUN)
    grant = Grant.objects.get(request=request)
    assert (grant.given_by, grant.digest) == (people.approver.user, request.digest)


def test_the_same_thing_asked_again_is_a_request_of_its_own(people: People, run: Run) -> None:
    first = request_of(ask(people.agent, run, "git push"))
    vote(people.approver, first, Verdict.REJECT, reason="not today")
    second = request_of(ask(people.agent, run, "git push"))
    assert second.pk != first.pk
    assert (second.state, second.reason) == ("open", "")


def test_two_requests_of_one_turn_are_decided_apart(people: People, run: Run) -> None:
    one, two = ask(people.agent, run, "git push a"), ask(people.agent, run, "git push b")
    vote(people.approver, request_of(two), Verdict.REJECT)
    vote(people.approver, request_of(one))
    one.refresh_from_db()
    two.refresh_from_db()
    run.refresh_from_db()
    assert (one.state, two.state, run.state) == ("queued", "rejected", "active")
