"""Grants: a standing yes with a scope and an end."""

from __future__ import annotations

from django.db import models

from approvals.models.request import Request
from omniweb.accounts.models import AgentIdentity, Team, User
from omniweb.core.models import Row
from trajectories.models import Trajectory


class Grant(Row):
    """A yes that covers the same thing again, within one run."""

    PREFIX = "gra"

    team = models.ForeignKey(Team, models.CASCADE, related_name="grants")
    agent = models.ForeignKey(AgentIdentity, models.CASCADE, related_name="grants")
    trajectory = models.ForeignKey(Trajectory, models.CASCADE, related_name="grants")
    request = models.ForeignKey(Request, models.PROTECT, related_name="grants")
    given_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64, help_text="What it covers, exactly")
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["trajectory", "digest"])]

    def __str__(self) -> str:
        return f"grant on {self.request}"
