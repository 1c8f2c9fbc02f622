"""The built-in policies decide as their matrix says."""

from __future__ import annotations

import pytest

from approvals.policy.capabilities import CAPABILITIES
from approvals.policy.decision import AuthorityRequest, Target
from approvals.policy.evaluator import compile_policy
from approvals.policy.profiles import PROFILES, profile_document, profile_source
from omniweb.core.errors import NotFound

COMPILED = [compile_policy(profile_document(name)) for name in PROFILES]


@pytest.mark.parametrize(
    ("capability", "surface", "answers"),
    [
        ("tool.local.call", "tool", "allow allow deny"),
        ("tool.mcp.call", "mcp", "allow ask deny"),
        ("mcp.server.start", "mcp", "allow ask deny"),
        ("mcp.server.connect", "mcp", "allow ask deny"),
        ("workspace.files.read", "workspace", "allow allow deny"),
        ("workspace.files.write", "workspace", "allow allow deny"),
        ("workspace.files.delete", "workspace", "allow ask deny"),
        ("workspace.files.clear", "workspace", "allow ask deny"),
        ("skill.files.read", "host", "allow allow deny"),
        ("skill.script.run", "host", "allow allow deny"),
        ("code.run", "code", "allow allow deny"),
        ("sandbox.execute", "sandbox", "allow allow deny"),
        ("process.exec", "sandbox", "allow allow deny"),
        ("process.exec", "host", "deny ask deny"),
        ("sandbox.image.use", "sandbox", "allow allow deny"),
        ("sandbox.environment.set", "sandbox", "allow allow deny"),
        ("sandbox.resources.set", "sandbox", "allow allow deny"),
        ("sandbox.workspace.sync", "sandbox", "allow allow deny"),
        ("sandbox.filesystem.mount", "sandbox", "ask ask deny"),
        ("sandbox.network.configure", "sandbox", "ask ask deny"),
        ("secret.read", "secret", "deny deny deny"),
        ("secret.use", "secret_broker", "deny ask deny"),
        ("package.install", "network", "deny ask deny"),
        ("subagent.spawn", "subagent", "allow ask deny"),
        ("network.http.get", "network", "deny ask deny"),
        ("filesystem.read", "filesystem", "deny ask deny"),
        ("filesystem.delete", "filesystem", "deny ask deny"),
        ("background.task.create", "background", "allow ask deny"),
        ("background.run.start", "background", "allow ask deny"),
        ("telemetry.governance.emit", "telemetry", "allow allow allow"),
        ("memory.recall", "memory", "allow allow deny"),
        ("nobody.knows.this", "tool", "allow ask deny"),
    ],
)
def test_each_profile_answers_as_its_matrix_says(
    capability: str, surface: str, answers: str
) -> None:
    known = CAPABILITIES.get(capability)
    request = AuthorityRequest(
        capability=capability,
        execution_surface=surface,
        risk_level=known.risk if known else "low",
        target=Target(),
    )
    assert [str(policy.evaluate(request).effect) for policy in COMPILED] == answers.split()


def test_credentials_never_flow_whatever_the_capability() -> None:
    request = AuthorityRequest("network.http.get", data_classes=("credential",))
    for policy in COMPILED:
        decision = policy.evaluate(request)
        assert decision.matched_rules[0] == "deny_credential_or_system_prompt_flow"
        assert decision.reason == ("Credential and system prompt data require a brokered boundary.")


def test_commands_in_the_sandbox_must_stay_there() -> None:
    request = AuthorityRequest(
        "process.exec", execution_surface="sandbox", risk_level="high", command=("ls",)
    )
    for policy in COMPILED[:2]:
        assert policy.evaluate(request).constraints.sandbox_required


def test_the_profiles_hold_the_numbers_of_rules_published_for_them() -> None:
    counts = [len(list(profile_document(name).each_rule())) for name in PROFILES]
    assert counts == [21, 21, 3]


def test_there_are_44_capabilities() -> None:
    assert len(CAPABILITIES) == 44


def test_an_unknown_profile_is_told_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match="did you mean 'interactive-dev'"):
        profile_source("interactive")
