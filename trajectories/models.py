"""What is kept of a run: its trajectory, the steps, and the bytes too large for a step."""

from __future__ import annotations

import json
from datetime import UTC
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any

from django.db import models

from omniweb.accounts.models import Team
from omniweb.core.models import Row
from trajectories.flags import Flag
from trajectories.steps import AnyPayload, StepKind, payload_read
from trajectories.tally import Tally

FIRST_HASH = "0" * 64


class Trajectory(Row):
    """The ordered record of a run, or of an imported session, and where its chain ends."""

    PREFIX = "trj"

    team = models.ForeignKey(Team, models.CASCADE, related_name="trajectories")
    title = models.CharField(max_length=200, blank=True)
    head_seq = models.PositiveIntegerField(default=0)
    head_hash = models.CharField(max_length=64, default=FIRST_HASH)
    head_signature = models.CharField(max_length=128, blank=True)
    sealed_at = models.DateTimeField(null=True)
    totals = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "trajectories"
        indexes = [models.Index(fields=["team", "-id"])]

    def __str__(self) -> str:
        return self.title or self.ref

    @property
    def tally(self) -> Tally:
        """Its totals."""
        return Tally(**self.totals)


class Step(models.Model):
    """One thing that happened. Only the ledger writes steps; nothing changes them.

    `body` is the payload as the canonical JSON text that was hashed. `about`,
    `turn` and `flag` follow from the payloads and are there to be looked up by.
    """

    pk = models.CompositePrimaryKey("trajectory_id", "seq")
    trajectory = models.ForeignKey(Trajectory, models.CASCADE, related_name="steps")
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=32, choices=[(kind.value, kind.value) for kind in StepKind])
    actor = models.CharField(max_length=200)
    body = models.TextField()
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    about = models.UUIDField(null=True)
    turn = models.PositiveIntegerField(default=0)
    flag = models.PositiveSmallIntegerField(default=0, choices=[(f.value, f.name) for f in Flag])

    class Meta:
        ordering = ["trajectory_id", "seq"]
        indexes = [
            models.Index(
                fields=["trajectory", "about", "seq"],
                name="step_about",
                condition=models.Q(about__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"step {self.seq}: {self.kind}"

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The payload as data."""
        data: dict[str, Any] = json.loads(self.body)
        return data

    @property
    def content(self) -> AnyPayload:
        """The payload as the model of its kind."""
        return payload_read(self.kind, self.payload)

    def hashed_bytes(self) -> bytes:
        """The canonical JSON (RFC 8785) over which `hash` is taken.

        Keys in order: actor, at, kind, payload, prev_hash, seq, trajectory.
        """
        # Spliced and not serialised as a whole: the payload is canonical already, and this is the
        # hot path of appending and of verifying.
        text = (
            f'{{"actor":{encode_basestring(self.actor)},"at":"{at_text(self)}",'
            f'"kind":{encode_basestring(self.kind)},"payload":{self.body},'
            f'"prev_hash":{encode_basestring(self.prev_hash)},"seq":{self.seq},'
            f'"trajectory":"{self.trajectory_id}"}}'
        )
        return text.encode("utf-8", "surrogatepass")

    def to_dict(self) -> dict[str, Any]:
        """Return the step as it is exported; anyone can hash it again."""
        return {
            "trajectory": str(self.trajectory_id),
            "seq": self.seq,
            "at": at_text(self),
            "kind": self.kind,
            "actor": self.actor,
            "payload": self.payload,
            "prev_hash": self.prev_hash,
            "hash": self.hash,
        }


def at_text(step: Step) -> str:
    """Return a step's time as it is hashed: ISO 8601, UTC, always with microseconds."""
    return step.at.astimezone(UTC).isoformat(timespec="microseconds")


class Blob(Row):
    """Bytes named by their SHA-256; a team never sees another team's, even of equal content."""

    PREFIX = "blb"

    team = models.ForeignKey(Team, models.CASCADE, related_name="blobs")
    digest = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    media_type = models.CharField(max_length=100, default="application/octet-stream")
    data = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "digest"], name="blob_once_per_team")
        ]

    def __str__(self) -> str:
        return f"{self.size} bytes {self.digest[:12]}"
