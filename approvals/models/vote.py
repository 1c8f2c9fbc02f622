"""Votes: one person's verdict on a request."""

from __future__ import annotations

from django.db import models

from approvals.models.request import Request, Scope
from omniweb.accounts.models import User
from omniweb.core.models import Row


class Verdict(models.TextChoices):
    """What a person can say."""

    APPROVE = "approve"
    REJECT = "reject"


class Vote(Row):
    """A verdict with its reason, bound to what its voter was shown."""

    PREFIX = "vot"

    request = models.ForeignKey(Request, models.CASCADE, related_name="votes")
    voter = models.ForeignKey(User, models.PROTECT, related_name="votes")
    verdict = models.CharField(max_length=10, choices=Verdict)
    scope = models.CharField(max_length=20, choices=Scope, default=Scope.ONCE)
    reason = models.TextField(blank=True)
    review_token = models.CharField(max_length=32)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["request", "voter"], name="one_vote_per_person")
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.voter}"
