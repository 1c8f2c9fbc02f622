"""Policies: a name, and immutable versions of which one is active."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Any

from django.db import models

from approvals.policy.document import PolicyDocument, parse_document
from approvals.policy.evaluator import CompiledPolicy, compile_policy
from omniweb.accounts.models import Team, User
from omniweb.core.errors import Conflict
from omniweb.core.models import Row


class Policy(Row):
    """A named list of versions. A built-in one is read-only: duplicate it to edit."""

    PREFIX = "pol"

    team = models.ForeignKey(Team, models.CASCADE, related_name="policies")
    name = models.CharField(max_length=100)
    is_builtin = models.BooleanField(default=False)
    active_version = models.ForeignKey(
        "PolicyVersion", models.PROTECT, null=True, related_name="active_for"
    )
    archived_at = models.DateTimeField(null=True)
    needs_second_person = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whoever wrote a version does not activate it",
    )

    class Meta:
        verbose_name_plural = "policies"
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="policy_name_unique_in_team")
        ]

    def __str__(self) -> str:
        return self.name


class PolicyVersion(Row):
    """A policy document as it was saved; never changed afterwards."""

    PREFIX = "ver"

    policy = models.ForeignKey(Policy, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    source = models.TextField(help_text="The document as it was written, YAML or JSON")
    digest = models.CharField(max_length=64, help_text="SHA-256 over the canonical document")
    note = models.CharField(max_length=500, blank=True)
    created_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        verbose_name = "policy version"
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="version_number_unique")
        ]

    def __str__(self) -> str:
        return f"{self.policy.name} v{self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert; a version that exists cannot be written again."""
        if not self._state.adding:
            raise Conflict("A policy version never changes; save a new one")
        super().save(*args, **kwargs)

    def policy_document(self) -> PolicyDocument:
        """Return the parsed document."""
        return parse_document(self.source)

    def compiled(self) -> CompiledPolicy:
        """Return the document ready to evaluate; compiled once per version and process."""
        return _compiled(self.id, self.source)


@lru_cache(maxsize=256)
def _compiled(version: uuid.UUID, source: str) -> CompiledPolicy:
    return compile_policy(parse_document(source))
