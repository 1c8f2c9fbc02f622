"""Simulations: a draft or a version of a policy, tried on what was decided before."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from approvals.models.policy import Policy, PolicyVersion
from omniweb.accounts.models import Team, User
from omniweb.core.models import Row
from omniweb.core.transitions import Arrows, arrows


class SimulationState(models.TextChoices):
    """Where a simulation stands."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Simulation(Row):
    """One policy text replayed over recorded decisions; the result is kept."""

    PREFIX = "sim"
    TRANSITIONS: ClassVar[Arrows] = arrows(
        {
            "queued": {"running", "cancelled"},
            # A lost worker gives it back.
            "running": {"queued", "finished", "cancelled", "failed"},
            "finished": set(),
            "cancelled": set(),
            "failed": set(),
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    policy = models.ForeignKey(Policy, models.CASCADE, related_name="simulations")
    # None where a draft was tried.
    version = models.ForeignKey(PolicyVersion, models.CASCADE, null=True, related_name="+")
    created_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    source = models.TextField(help_text="The document that was tried, as it was written")
    over = models.JSONField(default=dict, help_text="Which decisions: see `Over`")
    state = models.CharField(
        max_length=10, choices=SimulationState.choices, default=SimulationState.QUEUED
    )
    claim = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    total = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    result = models.JSONField(default=dict)
    reason = models.CharField(max_length=500, blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["policy", "-id"]),
            models.Index(fields=["state", "lease_until"]),
        ]

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ("finished", "cancelled", "failed")
