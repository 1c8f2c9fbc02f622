"""The pipeline from a queued row to a recorded result."""

from __future__ import annotations

import pytest

from approvals.models import Scope, Verdict
from sandboxes.models import Execution
from tests.factories import (
    FREE_POLICY,
    OPEN_POLICY,
    ask,
    policy_use,
    request_of,
    run_ready,
    vote,
    work,
)
from tests.people import People


@pytest.fixture
def open_people(people: People) -> People:
    """The cast, with the agent under a policy that allows most commands."""
    policy_use(people.agent, OPEN_POLICY)
    return people


@pytest.fixture
def free_people(people: People) -> People:
    """The cast, with the agent under a policy without rules."""
    policy_use(people.agent, FREE_POLICY)
    return people


def test_an_allowed_command_runs_and_is_recorded(free_people: People) -> None:
    run = run_ready(free_people.agent, free_people.approver)
    done = work(ask(free_people.agent, run, "echo hello; echo oops >&2; exit 3"))
    assert (done.state, done.exit_code) == ("finished", 3)
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"hello\n"
    assert done.stderr is not None
    assert bytes(done.stderr.data) == b"oops\n"
    kinds = list(run.trajectory.steps.values_list("kind", flat=True))
    assert kinds[-4:] == ["execution_started", "output", "output", "execution_ended"]


def test_a_denied_command_never_reaches_a_worker(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    denied = ask(open_people.agent, run, "rm -rf build")
    assert (denied.state, denied.reason) == ("denied", "Nothing is deleted here.")
    assert work(denied).state == "denied"


def test_an_asked_command_waits_until_a_person_approves(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    asked = ask(open_people.agent, run, "git push origin main")
    assert asked.state == "waiting"
    assert work(asked).started_at is None
    vote(open_people.approver, request_of(asked))
    asked.refresh_from_db()
    assert asked.state == "queued"
    assert work(asked).started_at is not None
    assert request_of(asked).state == "spent"


def test_a_rejection_reaches_the_agent_word_for_word(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    asked = ask(open_people.agent, run, "git push")
    words = "open a pull request from the branch instead of pushing"
    vote(open_people.approver, request_of(asked), Verdict.REJECT, reason=words)
    asked.refresh_from_db()
    assert (asked.state, asked.reason) == ("rejected", f"Rejected by approver@example.org: {words}")
    run.refresh_from_db()
    assert run.state == "active"


def test_a_yes_for_the_run_covers_the_same_command_and_no_other(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    first = ask(open_people.agent, run, "git push origin main")
    vote(open_people.approver, request_of(first), scope=Scope.RUN)
    assert ask(open_people.agent, run, "git push origin main").state == "queued"
    assert ask(open_people.agent, run, "git push origin other").state == "waiting"
    assert ask(open_people.agent, run, "git push origin main", env={"A": "1"}).state == "waiting"


def test_a_yes_given_once_covers_nothing_else(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    first = ask(open_people.agent, run, "git push origin main")
    vote(open_people.approver, request_of(first), scope=Scope.ONCE)
    assert ask(open_people.agent, run, "git push origin main").state == "waiting"


def test_a_row_changed_after_it_was_approved_is_stale_and_does_not_run(open_people: People) -> None:
    run = run_ready(open_people.agent, open_people.approver)
    asked = ask(open_people.agent, run, "git push")
    vote(open_people.approver, request_of(asked))
    Execution.objects.filter(pk=asked.pk).update(argv=["sh", "-c", "git push --force"])
    done = work(asked)
    assert (done.state, done.started_at) == ("stale", None)


# In earnest: the thread that looks after a running command has a connection of its own.
@pytest.mark.django_db(transaction=True)
def test_a_time_limit_ends_everything_the_command_started(free_people: People) -> None:
    run = run_ready(free_people.agent, free_people.approver)
    asked = ask(free_people.agent, run, "sleep 60 & sleep 60", time_limit_seconds=1)
    done = work(asked)
    assert (done.state, done.exit_code) == ("timed_out", 137)


def test_a_second_doorbell_starts_nothing(free_people: People) -> None:
    run = run_ready(free_people.agent, free_people.approver)
    asked = ask(free_people.agent, run, "echo once >> log")
    work(asked)
    work(asked)
    assert bytes(work(ask(free_people.agent, run, "cat log")).stdout.data) == b"once\n"  # type: ignore[union-attr]  # it printed
