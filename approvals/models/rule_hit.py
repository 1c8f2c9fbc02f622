"""Which rules decided what, so that the hits of one rule are found among millions of decisions."""

from __future__ import annotations

from django.db import models

from approvals.models.decision import Decision
from approvals.models.policy import Policy


class RuleHit(models.Model):
    """One rule that matched in one decision; written in the transaction of the decision.

    Keys of decisions are ordered by time, so hits are, too.
    """

    # Found through the index below.
    policy = models.ForeignKey(Policy, models.CASCADE, related_name="+", db_index=False)
    decision = models.ForeignKey(Decision, models.CASCADE, related_name="hits")
    rule_id = models.CharField(max_length=200)

    class Meta:
        ordering = ["-decision_id"]
        indexes = [models.Index(fields=["policy", "rule_id", "decision"])]

    def __str__(self) -> str:
        return self.rule_id
