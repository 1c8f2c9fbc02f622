"""The audit log's writer."""

from __future__ import annotations

import uuid
from typing import Any, Protocol

from omniweb.core.models import AuditEntry, Row


class Acting(Protocol):
    """What the log needs to know of an actor."""

    @property
    def label(self) -> str:
        """How the log names the actor."""

    @property
    def team_id(self) -> uuid.UUID | None:
        """The team acted for; None for acts on the installation itself."""


def audit_write(*, actor: Acting, act: str, subject: Row | str, **detail: Any) -> AuditEntry:
    """Record an act, such as `policy.activate`; call it in the transaction that does the act."""
    return AuditEntry.objects.create(
        team_id=actor.team_id,
        actor=actor.label,
        act=act,
        subject=subject if isinstance(subject, str) else subject.ref,
        detail=detail,
    )
