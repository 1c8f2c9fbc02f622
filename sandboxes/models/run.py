"""Runs: one use of a sandbox by an agent under one policy version."""

from __future__ import annotations

from django.db import models

from approvals.models import PolicyVersion
from omniweb.accounts.models import AgentIdentity, Team
from omniweb.core.clock import now
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from sandboxes.models.environment import Environment
from trajectories.models import Trajectory


class RunState(models.TextChoices):
    """Where a run stands."""

    OPENING = "opening"
    ACTIVE = "active"
    WAITING = "waiting"
    FINISHING = "finishing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABANDONED = "abandoned"
    REFUSED = "refused"


ENDED = frozenset({"succeeded", "failed", "cancelled", "abandoned", "refused"})


class Run(Row):
    """From open to end. Environment and manifest are kept as they were when it opened."""

    PREFIX = "run"
    TRANSITIONS = arrows(
        {
            "opening": {"active", "waiting", "refused"},
            "active": {"waiting", "finishing", "refused"},
            "waiting": {"active", "finishing", "refused"},
            "finishing": {"succeeded", "failed", "cancelled", "abandoned"},
            **{state: set() for state in ENDED},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="runs")
    agent = models.ForeignKey(AgentIdentity, models.CASCADE, related_name="runs")
    trajectory = models.OneToOneField(Trajectory, models.CASCADE, related_name="run")
    version = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="runs")
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="runs")
    title = models.CharField(max_length=200, blank=True)
    group = models.CharField(max_length=200, blank=True)
    provider = models.CharField(max_length=64)
    options = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    manifest_digest = models.CharField(max_length=64)
    state = models.CharField(max_length=20, choices=RunState, default=RunState.OPENING)
    # Set once everything the manifest asks for is allowed; no command starts before.
    cleared_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField(default=now, db_index=True)
    ended_at = models.DateTimeField(null=True)
    # What the run becomes when its last command has ended and its sandbox is gone.
    outcome = models.CharField(max_length=20, choices=RunState, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["team", "-id"]),
            models.Index(fields=["state"]),
            models.Index(fields=["team", "state"]),
            models.Index(fields=["agent", "-id"]),
        ]

    def __str__(self) -> str:
        return self.title or self.ref

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen in it."""
        return self.state in ENDED or self.state == RunState.FINISHING
