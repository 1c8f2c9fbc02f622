"""Secrets of a team: given to sandboxes by name, their values kept encrypted."""

from __future__ import annotations

import json

from django.db import models

from omniweb.accounts.models import Team, User
from omniweb.core.models import Row
from omniweb.core.sealing import seal, unseal

PURPOSE = "team secrets"


class Secret(Row):
    """A value that environments refer to by its name, and where it may be sent.

    Where it may go never changes: that is what people approve. `sealed` holds the value, and the
    ones before it while an open run may still print them; nothing once it is archived.
    """

    PREFIX = "sec"

    team = models.ForeignKey(Team, models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=100)
    description = models.CharField(max_length=200, blank=True)
    hosts = models.JSONField(default=list, help_text="Empty: wherever its reader sends it")
    header = models.CharField(max_length=100)
    template = models.CharField(max_length=200)
    sealed = models.BinaryField()
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    rotated_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    archived_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"],
                condition=models.Q(archived_at=None),
                name="secret_name_unique_in_team",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def values(self) -> list[str]:
        """Return its value and the ones to be masked still, the newest first; raises Conflict."""
        found: list[str] = json.loads(unseal(self.sealed, purpose=PURPOSE))
        return found


def sealed_values(values: list[str]) -> bytes:
    """Return values as a secret keeps them."""
    return seal(json.dumps(values).encode(), purpose=PURPOSE)
