"""Executions: one command, asked, decided, run at most once, recorded."""

from __future__ import annotations

from django.db import models

from approvals.models import Decision, Request
from omniweb.accounts.models import Team
from omniweb.core.models import Row
from omniweb.core.transitions import arrows
from sandboxes.models.run import Run
from sandboxes.models.sandbox import Sandbox
from trajectories.models import Blob


class ExecutionState(models.TextChoices):
    """Where an execution stands.

    `starting` is claimed by a worker but not yet handed to the provider;
    `running` is written before it is, so a lost worker leaves `unknown` and
    never a second start.
    """

    ASKED = "asked"
    DENIED = "denied"
    WAITING = "waiting"
    EXPIRED = "expired"
    REJECTED = "rejected"
    STALE = "stale"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


SETTLED = frozenset(
    "denied expired rejected stale finished timed_out failed cancelled unknown".split()
)


class Execution(Row):
    """A command. What was asked never changes; only its state and result do."""

    PREFIX = "exe"
    TRANSITIONS = arrows(
        {
            "asked": {"denied", "waiting", "queued"},
            "waiting": {"queued", "expired", "rejected", "stale", "cancelled"},
            "queued": {"starting", "stale", "failed", "rejected", "expired", "cancelled"},
            "starting": {"running", "queued", "stale", "failed", "cancelled"},
            "running": {"finished", "timed_out", "failed", "cancelled", "unknown"},
            **{state: set() for state in SETTLED},
        }
    )

    team = models.ForeignKey(Team, models.CASCADE, related_name="executions")
    run = models.ForeignKey(Run, models.CASCADE, related_name="executions")
    sandbox = models.ForeignKey(Sandbox, models.SET_NULL, null=True, related_name="executions")
    decision = models.ForeignKey(Decision, models.PROTECT, null=True, related_name="+")
    request = models.ForeignKey(Request, models.PROTECT, null=True, related_name="+")

    # What was asked
    argv = models.JSONField()
    cwd = models.CharField(max_length=4096)
    env = models.JSONField(default=dict)
    stdin = models.BinaryField(null=True)
    time_limit_seconds = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)

    # Where it stands
    state = models.CharField(max_length=20, choices=ExecutionState, default=ExecutionState.ASKED)
    claim = models.UUIDField(null=True, help_text="Fences the worker that has it")
    lease_until = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    # A client waits for the result until then; after that the same command may join again.
    waiter_until = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)

    # What came of it
    queued_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    reason = models.TextField(blank=True, help_text="Why it was refused, or what went wrong")
    stdout = models.ForeignKey(Blob, models.PROTECT, null=True, related_name="+")
    stderr = models.ForeignKey(Blob, models.PROTECT, null=True, related_name="+")
    stdout_bytes = models.PositiveBigIntegerField(default=0)
    stderr_bytes = models.PositiveBigIntegerField(default=0)
    stdout_truncated = models.BooleanField(default=False)
    stderr_truncated = models.BooleanField(default=False)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["run", "id"]),
            models.Index(fields=["state", "lease_until"]),
            models.Index(fields=["team", "-id"]),
            models.Index(fields=["run", "digest"]),
        ]

    def __str__(self) -> str:
        return self.ref

    @property
    def is_settled(self) -> bool:
        """Whether its state can no longer change."""
        return self.state in SETTLED

    @property
    def duration_ms(self) -> float | None:
        """How long it ran, in milliseconds."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds() * 1000

    @property
    def surface(self) -> str:
        """What it was decided to run on, `sandbox` or `host`; empty before that."""
        asked = self.decision.authority_request if self.decision else {}
        return str(asked.get("execution_surface") or "")


class Stream(models.TextChoices):
    """The two streams of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class OutputChunk(models.Model):
    """A piece of output as it came, redacted; gone once the whole is a blob."""

    execution = models.ForeignKey(Execution, models.CASCADE, related_name="chunks")
    stream = models.CharField(max_length=6, choices=Stream)
    data = models.BinaryField()

    class Meta:
        ordering = ["id"]
        verbose_name = "output chunk"

    def __str__(self) -> str:
        return f"{len(self.data)} bytes of {self.stream}"
