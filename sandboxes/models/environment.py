"""Environments: a named place to run."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.models import Row


class Environment(Row):
    """A provider with its options, and the manifest its sandboxes start from."""

    PREFIX = "env"

    team = models.ForeignKey(Team, models.CASCADE, related_name="environments")
    name = models.CharField(max_length=100)
    provider = models.CharField(max_length=64)
    options = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    is_enabled = models.BooleanField(default=True)
    warm_sandboxes = models.PositiveIntegerField(default=0, help_text="Kept ready for runs")
    max_sandboxes = models.PositiveIntegerField(null=True, help_text="At once; none: no limit")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="environment_name_unique_in_team")
        ]

    def __str__(self) -> str:
        return self.name
