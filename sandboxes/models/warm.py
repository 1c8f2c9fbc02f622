"""Warm sandboxes: made before anybody asks, so that a run need not wait for one."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from sandboxes.models.environment import Environment
from sandboxes.models.sandbox import Sandbox


class WarmState(models.TextChoices):
    """Where one stands; `taken` has become the sandbox of a run, whose row tells the rest."""

    INTENDED = "intended"
    PROVISIONING = "provisioning"
    READY = "ready"
    TAKEN = "taken"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"
    LOST = "lost"


OVER = frozenset({"taken", "terminated", "failed", "lost"})


class WarmSandbox(Row):
    """A sandbox of no run yet, as its environment was when it was made.

    It carries its own reference as labels at its provider, also once a run has taken it.
    """

    PREFIX = "wrm"
    TRANSITIONS = arrows(
        {
            "intended": {"provisioning", "terminated"},
            "provisioning": {"ready", "failed", "lost"},
            "ready": {"taken", "terminating", "lost"},
            "terminating": {"terminated", "lost"},
            **{state: set() for state in OVER},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="warm_sandboxes")
    environment = models.ForeignKey(Environment, models.CASCADE, related_name="warm")
    sandbox = models.OneToOneField(
        Sandbox, models.SET_NULL, null=True, related_name="warm", help_text="What it has become"
    )
    provider = models.CharField(max_length=64)
    options = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    digest = models.CharField(max_length=64, help_text="Of provider, options and manifest")
    handle = models.JSONField(default=dict)
    isolation = models.JSONField(default=dict, help_text="What was seen from inside, when made")
    state = models.CharField(max_length=20, choices=WarmState, default=WarmState.INTENDED)
    reason = models.TextField(blank=True)
    lease_until = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    # Its provider ends it some time after this.
    stale_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        verbose_name = "warm sandbox"
        verbose_name_plural = "warm sandboxes"
        indexes = [
            models.Index(fields=["environment", "state"]),
            models.Index(fields=["state"]),
        ]
