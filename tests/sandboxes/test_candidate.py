"""What a person is asked about: the sentence, and which is looked at first."""

from __future__ import annotations

import pytest

from sandboxes.candidate import execution_candidate
from sandboxes.models import Execution, Run
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People


@pytest.fixture
def run(people: People) -> Run:
    """A ready run on this machine."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


def candidate_risk(execution: Execution, provider: str, network: dict[str, object]) -> str:
    """Return the risk of a command if its run were elsewhere."""
    execution.run.provider, execution.run.options = provider, {}
    execution.run.manifest = execution.run.manifest | {"network_policy": network}
    assert execution.decision is not None
    return execution_candidate(execution, execution.decision).risk


def test_what_runs_on_this_machine_is_looked_at_first(people: People, run: Run) -> None:
    asked = ask(people.agent, run, "git push")
    assert candidate_risk(asked, "local", {"default": "allow"}) == "critical"
    assert candidate_risk(asked, "docker", {"default": "allow"}) == "high"
    assert candidate_risk(asked, "docker", {"default": "deny", "allowed_hosts": ["a.b"]}) == "high"
    assert candidate_risk(asked, "docker", {"default": "deny"}) == "medium"


def test_the_sentence_names_the_programs(people: People, run: Run) -> None:
    asked = ask(people.agent, run, "git push origin main && npm publish")
    assert asked.request is not None
    assert asked.request.sentence == "fix-bot wants to run git and npm"
