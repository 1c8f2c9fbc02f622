"""Approval requests: a decision "ask" that waits for people."""

from __future__ import annotations

from django.db import models

from approvals.models.policy import PolicyVersion
from omniweb.accounts.models import AgentIdentity, Team, User
from omniweb.core.canonical import digest
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from trajectories.models import Trajectory


class RequestKind(models.TextChoices):
    """What an approval would set going."""

    EXECUTION = "execution", "a command"
    MANIFEST = "manifest", "a sandbox"


class RequestState(models.TextChoices):
    """Where a request stands; `spent` means that what it allowed has begun."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    SPENT = "spent"


class Scope(models.TextChoices):
    """How far a yes reaches."""

    ONCE = "once", "this once"
    RUN = "run", "this run"


class Request(Row):
    """What will happen if people agree; immutable but for its state."""

    PREFIX = "req"
    TRANSITIONS = arrows(
        {
            "open": {"approved", "rejected", "expired", "withdrawn", "superseded"},
            "approved": {"spent", "superseded", "withdrawn"},
            "rejected": set(),
            "expired": set(),
            "withdrawn": set(),
            "superseded": set(),
            "spent": set(),
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="requests")
    agent = models.ForeignKey(AgentIdentity, models.CASCADE, related_name="requests")
    owner = models.ForeignKey(User, models.PROTECT, related_name="+")
    trajectory = models.ForeignKey(Trajectory, models.CASCADE, related_name="requests")
    version = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="requests")
    kind = models.CharField(max_length=20, choices=RequestKind)
    subject_id = models.UUIDField(db_index=True, help_text="The execution, or the run")
    sentence = models.CharField(max_length=500, help_text="What will happen, in one sentence")
    candidate = models.JSONField(help_text="The exact thing that will happen")
    digest = models.CharField(max_length=64, help_text="SHA-256 over all that is approved")
    lines = models.JSONField(default=list, help_text="Each thing asked, with rule and reason")
    risk = models.CharField(max_length=10, default="high")
    terms = models.JSONField(default=dict, help_text="Who may decide, and how many must")
    scopes = models.JSONField(default=list, help_text="Scopes a voter may give")
    state = models.CharField(max_length=20, choices=RequestState, default=RequestState.OPEN)
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    scope = models.CharField(max_length=20, choices=Scope, blank=True)
    reason = models.TextField(blank=True, help_text="The deciding voter's words")

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["team", "state", "id"]),
            # Counting and sorting the inbox looks at nothing else: the rows themselves are wide.
            models.Index(fields=["team", "state", "kind", "risk", "id"]),
            models.Index(fields=["state", "expires_at"]),
            models.Index(fields=["agent", "sentence", "state"]),
        ]

    def __str__(self) -> str:
        return self.sentence

    @property
    def review_token(self) -> str:
        """Binds a vote to what was shown: it changes when anything on the card would."""
        shown = {"request": self.ref, "digest": self.digest, "lines": self.lines}
        return digest(shown | {"sentence": self.sentence, "terms": self.terms})[:32]

    @property
    def votes_needed(self) -> int:
        """How many approvals it takes."""
        return int(self.terms.get("count", 1))
