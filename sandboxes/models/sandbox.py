"""Sandboxes: live or past, of any provider."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.clock import now
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from sandboxes.models.run import Run


class SandboxState(models.TextChoices):
    """Where a sandbox stands; `intended` is written before the provider is called."""

    INTENDED = "intended"
    PROVISIONING = "provisioning"
    READY = "ready"
    ASLEEP = "asleep"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"
    LOST = "lost"


GONE = frozenset({"terminated", "failed", "lost"})
# Those that take up room; one that is intended waits for it.
HOLDING = frozenset({"provisioning", "ready", "asleep", "terminating"})


class Sandbox(Row):
    """One sandbox of a run; a run has at most one that is not gone."""

    PREFIX = "sbx"
    TRANSITIONS = arrows(
        {
            "intended": {"provisioning", "terminated", "failed"},
            "provisioning": {"ready", "failed", "lost", "terminating"},
            "ready": {"asleep", "terminating", "lost"},
            "asleep": {"ready", "terminating", "lost"},
            "terminating": {"terminated", "lost"},
            **{state: set() for state in GONE},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="sandboxes")
    run = models.ForeignKey(Run, models.CASCADE, related_name="sandboxes")
    provider = models.CharField(max_length=64)
    handle = models.JSONField(default=dict, help_text="What finds it again at the provider")
    isolation = models.JSONField(default=dict, help_text="What was seen from inside, before use")
    state = models.CharField(max_length=20, choices=SandboxState, default=SandboxState.INTENDED)
    reason = models.TextField(blank=True)
    lease_until = models.DateTimeField(null=True)
    # What its provider could not make is wanted again later, in a row of its own.
    wanted_at = models.DateTimeField(default=now)
    admitted_at = models.DateTimeField(null=True, help_text="When there was room for it")
    not_before = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    # The provider has paused it since; before that it is only to be.
    paused_at = models.DateTimeField(null=True)
    wake_wanted_at = models.DateTimeField(null=True)
    pauses = models.JSONField(default=list, help_text="From and to of each pause that is over")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "sandboxes"
        indexes = [models.Index(fields=["state"]), models.Index(fields=["team", "-id"])]
        constraints = [
            models.UniqueConstraint(
                fields=["run"],
                condition=~models.Q(state__in=sorted(GONE)),
                name="one_live_sandbox_per_run",
            )
        ]

    def __str__(self) -> str:
        return self.ref
