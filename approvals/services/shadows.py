"""Letting a version decide beside the one in force: recorded, never obeyed.

Nothing here may cost a real decision anything but time: what fails is recorded or logged, and a
database error undoes only what the shadow has written.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db import IntegrityError, transaction

from approvals.models import Decision, Policy, PolicyVersion, Shadow, ShadowDecision
from approvals.policy.decision import AuthorityRequest, PolicyDecision
from approvals.policy.simulate import recorded_by, responsible
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, Problem

logger = logging.getLogger(__name__)

MAX_HOURS = 24 * 31

# What is checked of a decision beyond its policy, such as where it would run.
Checked = Callable[[PolicyDecision], PolicyDecision]


def shadow_start(*, actor: Actor, policy: Policy, version: PolicyVersion, hours: int) -> Shadow:
    """Let a version of the policy decide in the shadow for so many hours.

    Raises InvalidInput for a time out of bounds, Conflict while another one does, or for the
    active version, which decides already.
    """
    actor.require(Action.CONFIGURE)
    if not 1 <= hours <= MAX_HOURS:
        problem = Problem(path="hours", message=f"a shadow lasts 1 to {MAX_HOURS} hours")
        raise InvalidInput(problems=[problem])
    if version.pk == policy.active_version_id:
        raise Conflict(f"Version {version.number} is active: it decides already")
    try:
        with transaction.atomic():
            lapsed = Shadow.objects.filter(policy=policy, ended_at__isnull=True, until__lte=now())
            lapsed.update(ended_at=now())
            shadow = Shadow.objects.create(
                team=actor.team,
                policy=policy,
                version=version,
                created_by=actor.user,
                until=now() + timedelta(hours=hours),
            )
            audit_write(
                actor=actor,
                act="policy.shadow",
                subject=policy,
                number=version.number,
                hours=hours,
            )
    except IntegrityError:
        raise Conflict(f"A version of {policy} is in the shadow; end that first") from None
    return shadow


def shadow_end(*, actor: Actor, shadow: Shadow) -> bool:
    """End a shadow before its time; False when it was over already."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        ended = Shadow.objects.filter(pk=shadow.pk, ended_at__isnull=True).update(ended_at=now())
        if ended:
            audit_write(actor=actor, act="policy.shadow_end", subject=shadow.policy)
    return bool(ended)


def shadow_decide(
    *,
    policy_id: uuid.UUID,
    requests: Sequence[AuthorityRequest],
    decisions: Sequence[Decision],
    checked: Checked,
) -> None:
    """Record what a policy's shadow says to questions that have just been decided; never raises."""
    try:
        # A failing statement would spoil the transaction of the real decision.
        with transaction.atomic():
            found = Shadow.objects.filter(
                policy_id=policy_id, ended_at__isnull=True, until__gt=now()
            )
            shadow = found.select_related("version").first()
            if shadow is not None:
                ShadowDecision.objects.bulk_create(
                    _said(shadow, request, decision, checked)
                    for request, decision in zip(requests, decisions, strict=True)
                )
    except Exception:
        logger.exception("the shadow of policy %s could not be recorded", policy_id)


def _said(
    shadow: Shadow, request: AuthorityRequest, decision: Decision, checked: Checked
) -> ShadowDecision:
    try:
        answer = checked(shadow.version.compiled().evaluate(request))
    except Exception as error:
        logger.exception("version %s in the shadow broke off", shadow.version.number)
        effect, by = "", type(error).__name__
    else:
        effect, by = answer.effect.value, responsible(answer)
    return ShadowDecision(
        shadow=shadow,
        decision=decision,
        was=decision.effect,
        was_by=recorded_by(tuple(decision.matched_rules), decision.reason_code)[:200],
        effect=effect,
        effect_by=by[:200],
        differs=effect not in ("", decision.effect),
    )
