"""`none` and `local_test`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from approvals.policy.decision import AuthorityRequest
from approvals.services.decisions import authority_decide
from sandboxes.adapters.local_test import Answer, forget_test_commands, register_test_command
from sandboxes.models import Environment, Execution
from sandboxes.providers.base import Command
from sandboxes.providers.registry import provider_spec
from sandboxes.services.runs import asking_for
from tests.factories import ask, policy_use, run_again, run_ready, work
from tests.people import People, bearer
from tests.requirements.sandbox_providers.doors import JSON, session_open

ANYTHING = "name: free\nmode: permissive\nrules: {}\n"
IN_A_SANDBOX = """
name: isolated
mode: strict
rules:
  allow:
    - {rule_id: allow_isolated, capability: process.exec, constraints: {sandbox_required: true},
       reason: Fine in a sandbox.}
    - {rule_id: allow_setup, capability: sandbox.*, reason: Fine.}
"""


def environment(people: People, provider: str, **options: Any) -> Environment:
    """Return an environment of a provider, as it may stand in the database."""
    return Environment.objects.create(
        team=people.team, name=provider, provider=provider, options=options
    )


def session(people: People, row: Environment) -> str:
    """Open a session and return where it is."""
    opened = session_open(people.agent, row)
    assert opened.status_code == 201, opened.content
    return f"/sandbox/v1/sessions/{opened.json()['session_id']}"


# none


@pytest.mark.django_db(transaction=True)
def test_none_gives_a_policy_but_nothing_is_executed(people: People) -> None:
    """'"provider": "none" gives the agent a policy but no sandbox: there is no execute tool'."""
    policy_use(people.agent, ANYTHING)
    row = environment(people, "none")
    address = session(people, row)
    assert row.runs.get().version.policy.name == "open"
    body = {"command": ["true"], "timeout_seconds": 5}
    answer = Client().post(f"{address}/exec", body, content_type=JSON, headers=bearer(people.agent))
    assert (answer.status_code, answer.json()["code"]) == (422, "sandbox_unsupported")
    assert "runs no commands" in answer.json()["detail"]
    assert not Execution.objects.filter(run=row.runs.get()).exists()
    assert not row.runs.get().sandboxes.exists()


def test_what_none_may_be_asked_is_said_where_it_is_chosen() -> None:
    """'nowhere: a policy with no execute tool'."""
    spec = provider_spec("none")
    assert (spec.supports_execution, spec.execution_surface) == (False, "none")


@pytest.mark.parametrize("provider", ["local", "local_test"])
def test_a_rule_that_requires_a_sandbox_is_never_satisfied_without_one(
    people: People, provider: str
) -> None:
    """'a policy rule that requires a sandbox (sandbox_required) is never satisfied'."""
    policy_use(people.agent, IN_A_SANDBOX, name="isolated")
    row = environment(people, provider)
    Environment.objects.filter(pk=row.pk).update(
        manifest={"network_policy": {"default": "allow"}} if provider == "local" else {}
    )
    session(people, Environment.objects.get(pk=row.pk))
    asked = ask(people.agent, row.runs.get(), "true")
    assert asked.state == "denied"
    assert asked.decision is not None
    assert asked.decision.reason_code == "sandbox_required"


def test_a_rule_that_requires_a_sandbox_denies_under_none_too(people: People) -> None:
    """The same, for whatever else the policy is asked about."""
    policy_use(people.agent, IN_A_SANDBOX, name="isolated")
    row = environment(people, "none")
    session(people, row)
    run = row.runs.get()
    asked = AuthorityRequest(capability="process.exec", risk_level="high", command=("true",))
    [decision] = authority_decide(asking=asking_for(run, run.id), requests=[asked])
    assert (decision.effect, decision.reason_code) == ("deny", "sandbox_required")


# local_test


@pytest.fixture
def handlers() -> Iterator[None]:
    """The document's handler for `sh`."""

    def fake_shell(command: Command) -> Answer:
        # command.argv is ["sh", "-c", "<the model's command>"]
        return Answer(exit_code=0, stdout=f"pretend output of: {command.argv[2]}\n")

    register_test_command("sh", fake_shell)
    yield
    forget_test_commands()


@pytest.mark.usefixtures("handlers")
@pytest.mark.django_db(transaction=True)
def test_local_test_runs_the_handlers_that_are_registered(people: People) -> None:
    """'local_test runs Python handlers you register instead of commands'."""
    policy_use(people.agent, IN_A_SANDBOX, name="isolated")
    session(people, environment(people, "local_test", allow_test_sandbox_runtime=True))
    run = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, run, "pytest -q"))
    assert (done.state, done.exit_code) == ("finished", 0)
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"pretend output of: pytest -q\n"


@pytest.mark.usefixtures("handlers")
@pytest.mark.django_db(transaction=True)
def test_without_the_switch_nothing_is_executed(people: People) -> None:
    """'Without allow_test_sandbox_runtime, the agent gets no execute tool.'"""
    policy_use(people.agent, ANYTHING)
    session(people, environment(people, "local_test"))
    run = run_ready(people.agent, people.approver)
    waiting = run_again(run).sandboxes.get()
    assert (waiting.state, "allow_test_sandbox_runtime" in waiting.reason) == ("failed", True)


@pytest.mark.usefixtures("handlers")
@pytest.mark.django_db(transaction=True)
def test_a_program_without_a_handler_is_told(people: People) -> None:
    """'handlers you register', and no others."""
    policy_use(people.agent, ANYTHING)
    session(people, environment(people, "local_test", allow_test_sandbox_runtime=True))
    run = run_ready(people.agent, people.approver)
    assert work(ask(people.agent, run, "true")).exit_code == 0
    forget_test_commands()
    unanswered = work(ask(people.agent, run, "true # again"))
    assert (unanswered.state, unanswered.exit_code) == ("finished", 127)
    assert unanswered.stderr is not None
    assert bytes(unanswered.stderr.data) == b"Command is not registered for local sandbox: sh\n"
