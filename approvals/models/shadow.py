"""Shadows: a version that decides beside the one in force for a while, and is never obeyed."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from approvals.models.decision import Decision
from approvals.models.policy import Policy, PolicyVersion
from omniweb.accounts.models import Team, User
from omniweb.core.clock import now
from omniweb.core.models import Row


class Shadow(Row):
    """One version in the shadow, from its birth until `until`, or until someone ends it."""

    PREFIX = "shd"

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    policy = models.ForeignKey(Policy, models.CASCADE, related_name="shadows")
    version = models.ForeignKey(PolicyVersion, models.CASCADE, related_name="+")
    created_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["policy"], condition=Q(ended_at__isnull=True), name="one_shadow_at_a_time"
            )
        ]

    @property
    def is_deciding(self) -> bool:
        """Whether it still decides."""
        return self.ended_at is None and self.until > now()


class ShadowDecision(models.Model):
    """What a shadow would have said where the version in force decided.

    Without `effect` it could not say anything; `effect_by` then names the error.
    """

    shadow = models.ForeignKey(Shadow, models.CASCADE, related_name="decisions", db_index=False)
    decision = models.ForeignKey(Decision, models.CASCADE, related_name="+")
    was = models.CharField(max_length=10)
    was_by = models.CharField(max_length=200)
    effect = models.CharField(max_length=10)
    effect_by = models.CharField(max_length=200)
    differs = models.BooleanField()

    class Meta:
        ordering = ["-decision_id"]
        indexes = [models.Index(fields=["shadow", "differs", "decision"])]

    def __str__(self) -> str:
        return f"{self.was} > {self.effect}"
