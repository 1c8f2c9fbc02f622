"""Taking back standing yeses."""

from __future__ import annotations

from django.db import transaction

from approvals.models import Grant
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.realtime import publish


def grant_revoke(*, actor: Actor, grant: Grant) -> bool:
    """End a standing yes: what it covered asks again. False when it was revoked already."""
    actor.require(Action.REQUEST_DECIDE)
    with transaction.atomic():
        ended = Grant.objects.filter(pk=grant.pk, revoked_at__isnull=True).update(revoked_at=now())
        if ended:
            audit_write(actor=actor, act="grant.revoke", subject=grant, request=grant.request.ref)
            publish("inbox", grant.team_id)
    return bool(ended)
