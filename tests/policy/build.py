"""Short ways to write documents and requests in tests."""

from __future__ import annotations

from typing import Any

from approvals.policy.decision import AuthorityRequest, PolicyDecision, Target
from approvals.policy.document import load_document
from approvals.policy.evaluator import compile_policy


def rule(rule_id: str, capability: str = "process.exec", **parts: Any) -> dict[str, Any]:
    return {"rule_id": rule_id, "capability": capability, **parts}


def policy(mode: str = "interactive", **buckets: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "under-test", "mode": mode, "rules": buckets}


def shell(text: str, **parts: Any) -> AuthorityRequest:
    return AuthorityRequest(
        capability="process.exec",
        execution_surface=parts.pop("execution_surface", "sandbox"),
        risk_level=parts.pop("risk_level", "high"),
        target=Target(resource="sh"),
        command=("sh", "-c", text),
        **parts,
    )


def decide(document: dict[str, Any], request: AuthorityRequest) -> PolicyDecision:
    return compile_policy(load_document(document)).evaluate(request)
