"""Prices: what a sandbox costs, as an operator knows it from a vendor's list or a bill."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.clock import now
from omniweb.core.models import Row
from sandboxes.models.environment import Environment


class Price(Row):
    """A price per hour of one sandbox from a time on; it never changes, a later one takes its place.

    With an environment it holds there alone, and goes before that of the provider.
    """

    PREFIX = "prc"

    team = models.ForeignKey(Team, models.CASCADE, related_name="prices")
    provider = models.CharField(max_length=64)
    environment = models.ForeignKey(Environment, models.CASCADE, null=True, related_name="prices")
    per_hour = models.DecimalField(max_digits=12, decimal_places=6)
    paused_per_hour = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    currency = models.CharField(max_length=3)
    starts_at = models.DateTimeField(default=now)

    class Meta:
        ordering = ["provider", "-starts_at", "-id"]

    @property
    def hourly(self) -> str:
        """The price per hour without needless noughts."""
        return f"{self.per_hour.normalize():f}"

    @property
    def hourly_paused(self) -> str:
        """The same of a paused sandbox."""
        return f"{self.paused_per_hour.normalize():f}"
