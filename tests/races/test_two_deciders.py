"""Two people decide the same request at the same instant."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from approvals.models import Request, Verdict
from approvals.services.requests import requests_expire
from omniweb.accounts.permissions import Actor
from omniweb.core.clock import now
from omniweb.core.errors import AlreadyDecided, OmniWebError
from sandboxes.models import Execution
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote, work
from tests.people import People

ROUNDS = 200

pytestmark = pytest.mark.django_db(transaction=True)


def together(*acts: object) -> list[OmniWebError | None]:
    """Do acts at once, each in a thread of its own; return what each raised."""
    start = threading.Barrier(len(acts))
    ends: list[OmniWebError | None] = [None] * len(acts)

    def do(index: int, act: object) -> None:
        start.wait()
        try:
            act()  # type: ignore[operator]  # each is a function
        except OmniWebError as error:
            ends[index] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=do, args=item) for item in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_one_of_two_decides_and_the_other_learns_who_was_first(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    first, second = people.approver, people.second_approver
    for turn in range(ROUNDS):
        asked = ask(people.agent, run, f"git push origin branch-{turn}")
        request = request_of(asked)
        verdicts = (Verdict.APPROVE, Verdict.REJECT) if turn % 2 else (Verdict.APPROVE,) * 2
        ends = together(
            lambda request=request, verdict=verdicts[0]: vote(first, request, verdict),
            lambda request=request, verdict=verdicts[1]: vote(second, request, verdict),
        )
        losers = [end for end in ends if end is not None]
        assert len(losers) == 1
        assert isinstance(losers[0], AlreadyDecided)
        winner = (first, second)[ends.index(None)]
        assert str(losers[0].detail).startswith(f"{winner.label} was first")
        request.refresh_from_db()
        assert request.decided_by_id == winner.user.pk  # type: ignore[union-attr]  # a person
        assert request.votes.count() == 1
        asked.refresh_from_db()
        approved = verdicts[ends.index(None)] is Verdict.APPROVE
        assert asked.state == ("queued" if approved else "rejected")
        if asked.state == "queued":
            Execution.objects.filter(pk=asked.pk).update(state="cancelled")


def test_a_vote_and_the_expiry_never_both_win(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    for turn in range(20):
        asked = ask(people.agent, run, f"git push origin late-{turn}")
        request = request_of(asked)
        Request.objects.filter(pk=request.pk).update(expires_at=now())
        together(lambda request=request: vote(people.approver, request), requests_expire)
        request.refresh_from_db()
        asked.refresh_from_db()
        assert (request.state, asked.state) in {("approved", "queued"), ("expired", "expired")}


def test_two_workers_start_a_command_once(people: People) -> None:
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n", name="free")
    run = run_ready(people.agent, people.approver)
    for turn in range(10):
        asked = ask(people.agent, run, f"echo {turn} >> log-{turn}")
        together(lambda asked=asked: work(asked), lambda asked=asked: work(asked))
        seen = work(ask(people.agent, run, f"cat log-{turn}"))
        assert seen.stdout is not None
        assert bytes(seen.stdout.data).decode() == f"{turn}\n"


def test_an_approval_and_the_end_of_the_run_leave_nothing_waiting(people: People) -> None:
    from sandboxes.models import RunState
    from sandboxes.services.runs import run_end

    policy_use(people.agent, OPEN_POLICY)
    agent: Actor = people.agent
    for turn in range(10):
        run = run_ready(people.agent, people.approver)
        asked = ask(people.agent, run, f"git push origin end-{turn}")
        request = request_of(asked)
        together(
            lambda request=request: vote(people.approver, request),
            lambda run=run: run_end(actor=agent, run=run, outcome=RunState.SUCCEEDED),
        )
        asked.refresh_from_db()
        assert asked.state == "cancelled"
        assert not Request.objects.filter(trajectory=run.trajectory, state="open").exists()
