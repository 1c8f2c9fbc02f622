"""Tests of environments: the conformance kit, run once in a worker, and what it showed."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team, User
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from sandboxes.models.environment import Environment


class EnvironmentTestState(models.TextChoices):
    """Where a test stands; `lost` is one whose worker is gone."""

    QUEUED = "queued"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


OVER = frozenset({"passed", "failed", "lost", "cancelled"})


class EnvironmentTest(Row):
    """One test of an environment as it was then; an environment has at most one under way.

    `results` are the kit's CheckResults in the order they came. `handles` find the sandboxes it has
    made until it is known that they are gone.
    """

    PREFIX = "tst"
    TRANSITIONS = arrows(
        {
            "queued": {"running", "lost", "cancelled"},
            "running": {"passed", "failed", "lost", "cancelled"},
            **{state: set() for state in OVER},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="environment_tests")
    environment = models.ForeignKey(Environment, models.CASCADE, related_name="tests")
    started_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    provider = models.CharField(max_length=64)
    options = models.JSONField(default=dict)
    manifest = models.JSONField(default=dict)
    state = models.CharField(
        max_length=20, choices=EnvironmentTestState, default=EnvironmentTestState.QUEUED
    )
    reason = models.TextField(blank=True)
    results = models.JSONField(default=list)
    isolation = models.JSONField(default=dict, help_text="What was seen from inside a sandbox")
    handles = models.JSONField(default=list)
    lease_until = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state"]), models.Index(fields=["environment", "-id"])]
        constraints = [
            models.UniqueConstraint(
                fields=["environment"],
                condition=~models.Q(state__in=sorted(OVER)),
                name="one_test_under_way_per_environment",
            )
        ]

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in OVER

    @property
    def is_current(self) -> bool:
        """Whether the environment still is what was tested."""
        at = self.environment
        return (at.options, at.manifest) == (self.options, self.manifest)

    def count(self, outcome: str) -> int:
        """Return how many checks came out so."""
        return sum(1 for result in self.results if result["outcome"] == outcome)
