"""Requests as JSON: what they carry survives, what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.policy.decision import AuthorityRequest, Effect, Target
from omniweb.core.errors import InvalidInput


@pytest.mark.parametrize(
    "request_",
    [
        AuthorityRequest("code.run"),
        AuthorityRequest("code.run", target=None),
        AuthorityRequest("process.exec", command=()),
        AuthorityRequest(
            "process.exec",
            actor="agent fix-bot",
            target=Target(path="a", host="b", resource="c", tool_name="d", mcp_server="e"),
            provider="docker",
            execution_surface="sandbox",
            risk_level="high",
            data_classes=("pii",),
            method="GET",
            host="example.org",
            mcp_server="github",
            command=("sh", "-c", "ls"),
            metadata={"a": [1]},
        ),
    ],
)
def test_a_request_survives_json(request_: AuthorityRequest) -> None:
    assert AuthorityRequest.from_dict(request_.to_dict()) == request_


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "a request needs a capability"),
        ({"capability": "x", "colour": 1}, "unknown request field 'colour'"),
        ({"capability": 3}, "capability must be text"),
        ({"capability": "x", "risk_level": "huge"}, "risk_level must be one of: critical, high, low, medium"),
        ({"capability": "x", "command": "ls"}, "command must be a list of texts"),
        ({"capability": "x", "command": ["ls", 1]}, "command must be a list of texts"),
        ({"capability": "x", "target": "y"}, "target must be an object"),
        ({"capability": "x", "target": {"port": "1"}}, "unknown target field 'port'"),
        ({"capability": "x", "target": {"host": 1}}, "target.host must be text"),
        ({"capability": "x", "metadata": []}, "metadata must be an object"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_request_is_named(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AuthorityRequest.from_dict(value)
    assert [problem.message for problem in caught.value.problems] == [message]


def test_effects_are_ordered_by_strictness() -> None:
    assert sorted(Effect, key=lambda effect: effect.strictness) == ["allow", "ask", "deny"]
