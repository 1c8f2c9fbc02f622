"""Circuits: what is known of a provider's account that does not answer."""

from __future__ import annotations

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.models import Row
from omniweb.core.transitions import arrows


class CircuitState(models.TextChoices):
    """`closed` lets every call through, `open` none, `trying` is open with one call under way."""

    CLOSED = "closed"
    OPEN = "open"
    TRYING = "trying"


class Circuit(Row):
    """A team's line to one account at a provider; made at its first failure and kept from then on.

    `account` is a digest of the provider and of the options that decide whom is called.
    """

    PREFIX = "cir"
    TRANSITIONS = arrows(
        {
            "closed": {"open"},
            "open": {"trying", "closed"},
            "trying": {"trying", "open", "closed"},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="circuits")
    provider = models.CharField(max_length=64)
    account = models.CharField(max_length=64)
    state = models.CharField(max_length=20, choices=CircuitState, default=CircuitState.CLOSED)
    failures = models.PositiveIntegerField(default=0, help_text="In a row")
    reason = models.TextField(blank=True, help_text="What the last failure was")
    failing_since = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    # A trial whose worker is lost is anybody's after this.
    lease_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["provider", "id"]
        constraints = [
            models.UniqueConstraint(fields=["team", "account"], name="one_circuit_per_account")
        ]

    @property
    def is_open(self) -> bool:
        """Whether nobody may call, but for one who tries."""
        return self.state != CircuitState.CLOSED
