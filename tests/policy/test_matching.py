"""How each condition and target compares, and what a miss says it wanted."""

from __future__ import annotations

from typing import Any

import pytest

from approvals.policy.decision import AuthorityRequest, Effect, Target
from approvals.policy.document import Rule
from approvals.policy.matching import compile_rule


def miss(effect: Effect, parts: dict[str, Any], **request: Any) -> str | None:
    given = Rule.model_validate({"rule_id": "r", "capability": "*", **parts})
    asked = AuthorityRequest(capability=request.pop("capability", "tool.local.call"), **request)
    return compile_rule(given, effect, 0).first_miss(asked)


def holds(parts: dict[str, Any], **request: Any) -> bool:
    return miss(Effect.DENY, parts, **request) is None


@pytest.mark.parametrize(
    ("conditions", "request_parts", "expected"),
    [
        ({"risk_level": ["high", "critical"]}, {"risk_level": "high"}, True),
        ({"risk_level": ["high"]}, {"risk_level": "low"}, False),
        ({"risk_level": []}, {"risk_level": "low"}, True),
        ({"provider": "docker"}, {"provider": "docker"}, True),
        ({"provider": "dock*"}, {"provider": "docker"}, False),
        ({"execution_surface": "sandbox"}, {"execution_surface": "sandbox"}, True),
        ({"execution_surface": "sandbox"}, {}, False),
        ({"exclude_execution_surface": ["sandbox"]}, {"execution_surface": "sandbox"}, False),
        ({"exclude_execution_surface": ["sandbox"]}, {}, True),
        ({"exclude_capability": ["tool.*"]}, {}, False),
        ({"exclude_capability": ["tool.mcp.call"]}, {}, True),
        ({"mcp_server": "github"}, {"mcp_server": "github"}, True),
        ({"mcp_server": "git*"}, {"mcp_server": "github"}, False),
        ({"method": "POST"}, {"method": "post"}, True),
        ({"method": "POST"}, {}, False),
        ({"host": "*.example.org"}, {"host": "a.b.example.org"}, True),
        ({"host": "*.example.org"}, {"target": Target(host="a.example.org")}, True),
        ({"host": "a"}, {"host": "a", "target": Target(host="b")}, True),
        ({"host": "b"}, {"host": "a", "target": Target(host="b")}, False),
        ({"host": "*"}, {}, True),
        ({"host": "EXAMPLE.org"}, {"host": "example.org"}, False),
        ({"risk_level": ["low"], "method": "get"}, {"risk_level": "low"}, False),
    ],
)
def test_conditions_must_all_hold(
    conditions: dict[str, Any], request_parts: dict[str, Any], *, expected: bool
) -> None:
    assert holds({"conditions": conditions}, **request_parts) is expected


@pytest.mark.parametrize(
    ("target", "request_parts", "expected"),
    [
        ({"path": "src/*"}, {"target": Target(path="src/a/b.py")}, True),
        ({"path": "src/*"}, {"target": Target(path="SRC/a")}, False),
        ({"path": "src/?.py"}, {"target": Target(path="src/a.py")}, True),
        ({"path": "src/[ab].py"}, {"target": Target(path="src/b.py")}, True),
        ({"path": "src/[!ab].py"}, {"target": Target(path="src/b.py")}, False),
        ({"path": "*"}, {"target": Target()}, True),
        ({"path": "*"}, {"target": None}, False),
        ({"resource": "x"}, {"target": None}, False),
        ({"tool_name": "delete_*"}, {"target": Target(tool_name="delete_user")}, True),
        ({"host": "*"}, {"target": None}, True),
        ({"mcp_server": "git*"}, {"mcp_server": "github"}, True),
        ({"mcp_server": "git*"}, {"target": Target(mcp_server="github")}, True),
        ({"mcp_server": "slack"}, {"mcp_server": "x", "target": Target(mcp_server="slack")}, False),
        ({"path": "a", "resource": "b"}, {"target": Target(path="a", resource="c")}, False),
    ],
)
def test_targets_match_as_globs_over_the_whole_text(
    target: dict[str, Any], request_parts: dict[str, Any], *, expected: bool
) -> None:
    assert holds({"target": target}, **request_parts) is expected


@pytest.mark.parametrize(
    ("effect", "classes", "expected"),
    [
        (Effect.ALLOW, (), True),
        (Effect.ALLOW, ("pii",), True),
        (Effect.ALLOW, ("pii", "internal"), True),
        (Effect.ALLOW, ("pii", "credential"), False),
        (Effect.DENY, (), False),
        (Effect.DENY, ("pii", "credential"), True),
        (Effect.ASK, ("credential",), False),
        (Effect.ASK, ("internal",), True),
    ],
)
def test_data_classes_must_all_be_allowed_but_one_is_enough_to_refuse(
    effect: Effect, classes: tuple[str, ...], *, expected: bool
) -> None:
    parts = {"conditions": {"data_classes": ["pii", "internal"]}}
    assert (miss(effect, parts, data_classes=classes) is None) is expected


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"conditions": {"risk_level": ["high", "low"]}}, "risk_level in high, low"),
        ({"conditions": {"execution_surface": "host"}}, "execution_surface host"),
        ({"conditions": {"exclude_capability": ["tool.*"]}}, "capability not in tool.*"),
        ({"conditions": {"data_classes": ["pii"]}}, "any data class of pii"),
        ({"target": {"path": "a/*"}}, "target path a/*"),
        ({"target": {"host": "a"}}, "host a"),
    ],
)
def test_a_miss_says_what_the_rule_wanted(parts: dict[str, Any], wanted: str) -> None:
    assert miss(Effect.DENY, parts, risk_level="medium") == wanted
