"""Decisions: every answer a policy gave, with its reasons."""

from __future__ import annotations

from django.db import models

from approvals.models.policy import PolicyVersion
from approvals.models.request import Request
from approvals.policy.decision import Effect
from omniweb.accounts.models import AgentIdentity, Team
from omniweb.core.models import Row
from trajectories.models import Trajectory


class Decision(Row):
    """One authority request and its answer."""

    PREFIX = "dec"

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    agent = models.ForeignKey(AgentIdentity, models.CASCADE, related_name="decisions")
    trajectory = models.ForeignKey(Trajectory, models.CASCADE, related_name="decisions")
    version = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="decisions")
    request = models.ForeignKey(Request, models.SET_NULL, null=True, related_name="decisions")
    subject_id = models.UUIDField(db_index=True, help_text="The run or execution it is about")
    capability = models.CharField(max_length=100)
    effect = models.CharField(
        max_length=10, choices=[(effect.value, effect.value) for effect in Effect]
    )
    reason_code = models.CharField(max_length=40)
    reason = models.TextField(blank=True)
    matched_rules = models.JSONField(default=list)
    constraints = models.JSONField(default=dict)
    authority_request = models.JSONField(help_text="What was asked, redacted")
    explanation = models.JSONField(default=dict, help_text="Rules that lost, near misses, parts")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["team", "-id"]),
            # Counting what a policy decided lately looks at nothing else.
            models.Index(fields=["version", "id"]),
        ]

    def __str__(self) -> str:
        return f"{self.effect} {self.capability}"
