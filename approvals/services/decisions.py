"""Asking a policy, and keeping every answer."""

from __future__ import annotations

import logging
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import transaction

from approvals.models import Decision, PolicyVersion, RuleHit
from approvals.policy.decision import AuthorityRequest, Deny, Effect, PolicyDecision, ReasonCode
from approvals.services.shadows import shadow_decide
from omniweb.accounts.models import AgentIdentity
from omniweb.accounts.permissions import system
from omniweb.core.audit import audit_write
from omniweb.core.text import visible
from trajectories.models import Trajectory
from trajectories.redaction import Redactor, redactor
from trajectories.services import step_append
from trajectories.steps import StepKind

logger = logging.getLogger(__name__)

# The overview warns of these.
ACT_POLICY_ERROR = "policy.error"

type Explained = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asking:
    """Who asks, in which run, under which policy version."""

    agent: AgentIdentity
    trajectory: Trajectory
    version: PolicyVersion
    subject_id: uuid.UUID
    # Whether what runs it isolates it; a rule with `sandbox_required` is only satisfied then.
    is_isolated: bool
    # Masks the run's own secrets, too.
    clean: Redactor = field(default_factory=redactor)


def authority_decide(*, asking: Asking, requests: Sequence[AuthorityRequest]) -> list[Decision]:
    """Put questions to the policy at once; each answer becomes a row and a step.

    Call it in the transaction that acts on the answers.
    """
    with transaction.atomic():
        decisions = [_record(asking, request) for request in requests]
        shadow_decide(
            policy_id=asking.version.policy_id,
            requests=requests,
            decisions=decisions,
            checked=partial(_checked, asking=asking),
        )
    return decisions


def _decided(asking: Asking, request: AuthorityRequest) -> tuple[PolicyDecision, Explained]:
    """Return the answer and its explanation; whatever goes wrong on the way to them is a deny."""
    try:
        decision = _checked(asking.version.compiled().evaluate(request), asking=asking)
        told = asking.clean.value(decision.explanation.to_dict())
    except Exception as error:
        logger.exception("%s could not decide", asking.version)
        decision = Deny(
            reason_code=ReasonCode.POLICY_ERROR,
            reason=f"The policy could not be evaluated ({type(error).__name__}), so nothing is allowed.",
        )
        told = {}
    return decision, told


def _alert(asking: Asking, row: Decision) -> None:
    """Let people find that a policy is broken: what it denies now it may have been meant to allow."""
    audit_write(
        actor=system(asking.agent.team),
        act=ACT_POLICY_ERROR,
        subject=asking.version.policy,
        number=asking.version.number,
        decision=row.ref,
    )


def _checked(decision: PolicyDecision, *, asking: Asking) -> PolicyDecision:
    if (
        decision.effect is Effect.ALLOW
        and decision.constraints.sandbox_required
        and not asking.is_isolated
    ):
        return Deny(
            reason_code=ReasonCode.SANDBOX_REQUIRED,
            reason="Policy requires routing through the sandbox execution boundary.",
            matched_rules=decision.matched_rules,
            constraints=decision.constraints,
            explain=decision.explain,
        )
    return decision


def _record(asking: Asking, request: AuthorityRequest) -> Decision:
    clean = asking.clean
    decision, told = _decided(asking, request)
    row = Decision.objects.create(
        team_id=asking.agent.team_id,
        agent=asking.agent,
        trajectory=asking.trajectory,
        version=asking.version,
        subject_id=asking.subject_id,
        capability=request.capability,
        effect=decision.effect.value,
        reason_code=decision.reason_code.value,
        reason=decision.reason or "",
        matched_rules=list(decision.matched_rules),
        constraints=decision.constraints.to_dict(),
        authority_request=clean.value(request.to_dict()),
        explanation=told,
    )
    if decision.reason_code is ReasonCode.POLICY_ERROR:
        _alert(asking, row)
    policy = asking.version.policy_id
    RuleHit.objects.bulk_create(
        RuleHit(policy_id=policy, decision=row, rule_id=rule_id) for rule_id in row.matched_rules
    )
    step_append(
        trajectory=asking.trajectory,
        kind=StepKind.AUTHORITY_DECISION,
        actor="policy",
        payload={
            "decision": row.ref,
            "capability": row.capability,
            "target": target_text(request),
            "effect": row.effect,
            "reason_code": row.reason_code,
            "reason": row.reason,
            "matched_rules": row.matched_rules,
            "policy": asking.version.policy.name,
            "policy_version": asking.version.number,
            "constraints": row.constraints,
            "subject": str(asking.subject_id),
        },
        clean=clean,
    )
    return row


def target_text(request: AuthorityRequest) -> str:
    """Return in a few words what a request is about."""
    if request.command:
        return command_text(request.command)
    target = request.target
    named = (target.path, target.host, target.resource, target.tool_name) if target else ()
    return visible(" ".join(part for part in named if part) or request.host or "")


def command_text(argv: Sequence[str]) -> str:
    """Return a command as people write it: the script of `sh -c`, or the quoted words."""
    shells = {"sh", "bash", "dash", "zsh", "ksh", "ash"}
    if len(argv) == 3 and argv[0].rpartition("/")[2] in shells and argv[1] == "-c":
        return argv[2]
    return shlex.join(argv)
