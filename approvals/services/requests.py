"""Opening, ending and spending approval requests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from approvals.models import Decision, Grant, Request, RequestKind, RequestState, Scope
from approvals.services.decisions import Asking
from approvals.signals import request_decided
from omniweb.core.clock import now
from omniweb.core.each import for_each
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from trajectories.services import step_append, trajectory_held
from trajectories.steps import StepKind

RISKS = ("low", "medium", "high", "critical")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What would happen: for people a sentence, for the digest every input."""

    kind: RequestKind
    subject_id: uuid.UUID
    sentence: str
    shown: Mapping[str, Any]
    digest: str
    risk: str = "high"


def request_open(*, asking: Asking, candidate: Candidate, decisions: Sequence[Decision]) -> Request:
    """Open one request for all decisions `ask` of an action; they become its lines."""
    clean = asking.clean
    asks = [decision for decision in decisions if decision.effect == "ask"]
    with transaction.atomic():
        request = Request.objects.create(
            team_id=asking.agent.team_id,
            agent=asking.agent,
            owner=asking.agent.owner,
            trajectory=asking.trajectory,
            version=asking.version,
            kind=candidate.kind,
            subject_id=candidate.subject_id,
            sentence=clean.text(candidate.sentence)[:500],
            candidate=clean.value(dict(candidate.shown)),
            digest=candidate.digest,
            lines=[_line(decision) for decision in asks],
            risk=candidate.risk,
            terms=_terms(asks),
            scopes=_scopes(candidate.kind, asks),
            expires_at=now() + _lifetime(asks),
        )
        Decision.objects.filter(pk__in=[decision.pk for decision in asks]).update(request=request)
        step_append(
            trajectory=request.trajectory,
            kind=StepKind.REQUEST_OPENED,
            actor="policy",
            payload={
                "request": request.ref,
                "sentence": request.sentence,
                "lines": request.lines,
                "digest": request.digest,
                "expires_at": request.expires_at.isoformat(),
                "subject": str(request.subject_id),
            },
        )
        publish("inbox", request.team_id)
    return request


def _line(decision: Decision) -> dict[str, Any]:
    target = decision.authority_request.get("target", {})
    return {
        "decision": decision.ref,
        "capability": decision.capability,
        "target": target,
        "metadata": decision.authority_request.get("metadata", {}),
        "risk": decision.authority_request.get("risk_level", "low"),
        "rules": decision.matched_rules,
        "reason_code": decision.reason_code,
        "reason": decision.reason,
    }


def _terms(asks: Sequence[Decision]) -> dict[str, Any]:
    """Merge who may decide: the most people, the strictest exclusions, the roles all name."""
    merged: dict[str, Any] = {}
    for decision in asks:
        terms = decision.constraints.get("approvals", {})
        merged["count"] = max(merged.get("count", 1), terms.get("count", 1))
        for name in ("exclude_owner", "exclude_requester"):
            merged[name] = merged.get(name, False) or terms.get(name, False)
        roles = terms.get("roles")
        if roles:
            known = merged.get("roles")
            shared = [role for role in known if role in roles] if known else list(roles)
            # Two rules that name no common role leave nobody; an empty list would mean anybody.
            merged["roles"] = shared or ["nobody"]
    return merged


def _scopes(kind: RequestKind, asks: Sequence[Decision]) -> list[str]:
    if kind == RequestKind.MANIFEST:
        # A yes to a sandbox holds for its run: there is only one to open.
        return [Scope.RUN]
    scopes = [scope.value for scope in Scope]
    for decision in asks:
        wanted = decision.constraints.get("scopes")
        if wanted:
            scopes = [scope for scope in scopes if scope in wanted]
    return scopes or [Scope.ONCE]


def _lifetime(asks: Sequence[Decision]) -> timedelta:
    seconds = [item.constraints.get("approval_expires_seconds") for item in asks]
    given = [value for value in seconds if value]
    return timedelta(seconds=min(given, default=settings.REQUEST_EXPIRES_SECONDS))


def request_end(
    *, request: Request, state: RequestState, actor: str, reason: str, **changes: Any
) -> bool:
    """Move an open request to an end, tell the record, and let what waits move on.

    Returns False when someone else ended it first.
    """
    moment = now()
    with trajectory_held(request.trajectory_id):
        if not transition(
            request, state, source=["open"], decided_at=moment, reason=reason, **changes
        ):
            return False
        step_append(
            trajectory=request.trajectory,
            kind=StepKind.REQUEST_DECIDED,
            actor=actor,
            payload={
                "request": request.ref,
                "outcome": state.value,
                "by": actor,
                "reason": reason,
                "scope": request.scope,
                "waited_ms": int((moment - request.created_at).total_seconds() * 1000),
                "subject": str(request.subject_id),
            },
        )
        request_decided.send(Request, request=request)
        publish("inbox", request.team_id)
    return True


def request_withdraw(*, request: Request, reason: str) -> bool:
    """End a request because what asked is gone."""
    return request_end(request=request, state=RequestState.WITHDRAWN, actor="system", reason=reason)


def requests_expire() -> int:
    """End every open request whose time is up; return how many."""
    due = Request.objects.filter(state=RequestState.OPEN, expires_at__lte=now())
    return for_each(due.select_related("trajectory", "agent"), _expire)


def _expire(request: Request) -> bool:
    reason = "Nobody decided in time"
    return request_end(request=request, state=RequestState.EXPIRED, actor="system", reason=reason)


def request_spend(*, request: Request, digest: str) -> bool:
    """Use an approval for the thing it was given for.

    False when it is not approved, or when the digest shows that the thing has
    changed: then the request is superseded and may not be used.
    """
    if digest != request.digest:
        transition(request, RequestState.SUPERSEDED)
        return False
    return transition(request, RequestState.SPENT)


def grant_use(*, asking: Asking, digest: str) -> Grant | None:
    """Return a standing yes of this run that covers a digest, noting its use; None without one."""
    grant = (
        Grant.objects.filter(trajectory=asking.trajectory, digest=digest, revoked_at__isnull=True)
        .select_related("request")
        .first()
    )
    if grant is None:
        return None
    Grant.objects.filter(pk=grant.pk).update(last_used_at=now())
    step_append(
        trajectory=asking.trajectory,
        kind=StepKind.GRANT_USED,
        actor="policy",
        payload={
            "grant": grant.ref,
            "request": grant.request.ref,
            "scope": Scope.RUN.value,
            "subject": str(asking.subject_id),
        },
    )
    return grant
