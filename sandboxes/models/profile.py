"""Profiles: under which policy and in which environment an agent runs."""

from __future__ import annotations

from django.db import models

from approvals.models import Policy
from omniweb.accounts.models import AgentIdentity
from omniweb.core.models import Row
from sandboxes.models.environment import Environment


class Profile(Row):
    """What an operator chose for an agent."""

    PREFIX = "pro"

    agent = models.OneToOneField(AgentIdentity, models.CASCADE, related_name="profile")
    policy = models.ForeignKey(Policy, models.PROTECT, related_name="profiles")
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="profiles")

    def __str__(self) -> str:
        return f"{self.agent}: {self.policy} in {self.environment}"
