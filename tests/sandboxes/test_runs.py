"""Runs: what their manifests ask, and how they begin and end."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from approvals.models import Decision, Request, Verdict
from omniweb.accounts.permissions import system
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, NotPermitted, PolicyDenied, SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Run, RunState
from sandboxes.services.environments import environment_switch
from sandboxes.services.reconcile import reconcile
from sandboxes.services.runs import run_end, run_finish, run_open
from tests.factories import FREE_POLICY, ask, policy_use, run_again, run_ready, vote, work
from tests.people import People


def test_a_manifest_that_asks_nothing_begins_at_once(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_open(actor=people.agent, title="flaky checkout test")
    assert (run.state, run.title) == ("active", "flaky checkout test")
    assert run.sandboxes.get().state == "intended"


def test_everything_a_manifest_needs_is_asked_in_one_request(people: People) -> None:
    policy_use(
        people.agent,
        """
name: asking
mode: permissive
rules:
  ask:
    - {rule_id: ask_network, capability: sandbox.network.configure, reason: The network is shared.}
    - {rule_id: ask_environment, capability: sandbox.environment.set}
""",
        name="asking",
    )
    manifest = Manifest.parse({"environment": {"plain": {"CI": "1"}}})
    run = run_open(actor=people.agent, manifest=manifest)
    assert run.state == "waiting"
    request = Request.objects.get(subject_id=run.id)
    assert [line["capability"] for line in request.lines] == [
        "sandbox.network.configure",
        "sandbox.environment.set",
    ]
    assert request.sentence == (
        "fix-bot wants to turn the network on for its whole sandbox and set the variables CI"
    )
    vote(people.approver, request)
    assert run_again(run).state == "active"
    request.refresh_from_db()
    assert request.state == "spent"


def test_a_denied_manifest_leaves_a_refused_run_as_evidence(people: People) -> None:
    policy_use(
        people.agent,
        "name: closed\nmode: permissive\nrules: {deny: [{rule_id: deny_network,"
        " capability: sandbox.network.configure, reason: No network here.}]}\n",
        name="closed",
    )
    with pytest.raises(PolicyDenied, match="No network here"):
        run_open(actor=people.agent)
    run = Run.objects.get()
    assert (run.state, run.reason) == ("refused", "No network here.")
    assert run.trajectory.sealed_at is not None


def test_what_the_provider_cannot_keep_is_refused_in_its_words(people: People) -> None:
    with pytest.raises(SandboxUnsupported, match="The local sandbox does not enforce an image"):
        run_open(actor=people.agent, manifest=Manifest.parse({"image": "python:3.13"}))
    assert Run.objects.get().state == "refused"
    assert not Decision.objects.exists()


def test_a_rejected_manifest_answers_every_command_with_the_reviewers_words(
    people: People,
) -> None:
    run = run_open(actor=people.agent)
    policy_use(people.agent, FREE_POLICY)
    request = Request.objects.get(subject_id=run.id)
    vote(people.approver, request, Verdict.REJECT, reason="use the mirror instead")
    run = run_again(run)
    assert run.state == "refused"
    assert run.reason == "Rejected by approver@example.org: use the mirror instead"
    with pytest.raises(Conflict, match="use the mirror instead"):
        ask(people.agent, run, "id")


def test_a_command_waits_for_its_run_to_be_cleared(people: People) -> None:
    policy_use(
        people.agent,
        "name: net\nmode: permissive\nrules: {ask: [{rule_id: ask_network,"
        " capability: sandbox.network.configure}]}\n",
        name="net",
    )
    run = run_open(actor=people.agent)
    early = ask(people.agent, run, "echo early")
    assert (early.state, work(early).state) == ("queued", "queued")
    vote(people.approver, Request.objects.get(subject_id=run.id), Verdict.REJECT, reason="no")
    early.refresh_from_db()
    assert (early.state, early.reason) == ("rejected", "Rejected by approver@example.org: no")


def test_an_environment_that_is_off_opens_nothing(people: People) -> None:
    environment = Environment.objects.get()
    environment_switch(actor=people.operator, environment=environment, is_enabled=False)
    with pytest.raises(Conflict, match="The environment here is off"):
        run_open(actor=people.agent)


def test_only_agents_open_runs(people: People) -> None:
    with pytest.raises(NotPermitted):
        run_open(actor=people.admin)
    with pytest.raises(NotPermitted, match="Only an agent opens runs"):
        run_open(actor=system(people.team))


def test_ending_a_run_stops_what_waits_and_ends_its_sandbox(people: People) -> None:
    policy_use(
        people.agent,
        "name: asks\nmode: permissive\nrules: {ask: [{rule_id: ask_all,"
        " capability: process.exec}]}\n",
        name="asks",
    )
    run = run_ready(people.agent, people.approver)
    waiting = ask(people.agent, run, "id")
    assert run_end(actor=people.agent, run=run, outcome=RunState.SUCCEEDED)
    assert not run_end(actor=people.agent, run=run, outcome=RunState.SUCCEEDED)
    waiting.refresh_from_db()
    assert waiting.state == "cancelled"
    assert Request.objects.get(subject_id=waiting.id).state == "withdrawn"
    run_finish(run=run_again(run))
    run = run_again(run)
    assert (run.state, run.sandboxes.get().state) == ("succeeded", "terminated")
    assert run.trajectory.sealed_at is not None


def test_a_run_nobody_hears_of_is_abandoned(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_ready(people.agent, people.approver)
    with time_machine.travel(now() + timedelta(hours=2)):
        reconcile()
    run_finish(run=run_again(run))
    assert run_again(run).state == "abandoned"


def test_a_run_keeps_the_policy_version_it_was_opened_under(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_ready(people.agent, people.approver)
    from approvals.models import Policy
    from approvals.services.policies import version_create

    policy = Policy.objects.get(name="open", team=people.team)
    stricter = "name: free\nmode: strict\nrules: {}\n"
    version_create(actor=people.operator, policy=policy, source=stricter)
    assert ask(people.agent, run, "id").state == "queued"
    with pytest.raises(PolicyDenied):
        run_open(actor=people.agent)
