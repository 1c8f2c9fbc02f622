"""What every row has, and the audit log."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from omniweb.core.clock import now
from omniweb.core.errors import NotFound
from omniweb.core.ids import parse_ref, ref, uuid7


class RowQuerySet[R: "Row"](models.QuerySet[R]):
    """Adds the lookup by readable reference."""

    def by_ref(self, text: str) -> R:
        """Return the row a reference names; NotFound when it is malformed, absent or filtered out."""
        key = parse_ref(self.model.PREFIX, text)
        try:
            return self.get(pk=key)
        except self.model.DoesNotExist:
            raise NotFound(f"There is no {self.model._meta.verbose_name} {text}") from None


class Row(models.Model):
    """A row with a time-ordered key, a readable reference and its time of birth."""

    PREFIX: ClassVar[str]

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    objects = RowQuerySet.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.ref

    @property
    def ref(self) -> str:
        """The id as people and programs see it, such as `run_01k9…`."""
        return ref(self.PREFIX, self.id)


class AuditEntry(Row):
    """Who did what to what; written in the transaction of the act itself."""

    PREFIX = "aud"

    team_id = models.UUIDField(db_index=True, null=True)
    actor = models.CharField(max_length=200)
    act = models.CharField(max_length=80)
    subject = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["team_id", "-id"]),
            models.Index(fields=["subject", "-id"], name="audit_by_subject"),
        ]


class IdempotencyKey(Row):
    """An answer given once, kept so that the same question with the same key gets it again."""

    PREFIX = "idk"

    holder = models.CharField(max_length=80, help_text="Who sent it: a person or an agent")
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 over method, path and body")
    status = models.PositiveSmallIntegerField(default=0)
    # Encrypted: an answer may hold a secret that is shown only once.
    answer = models.BinaryField(default=b"")

    class Meta:
        indexes = [models.Index(fields=["created_at"])]
        constraints = [
            models.UniqueConstraint(fields=["holder", "key"], name="idempotency_key_once")
        ]
