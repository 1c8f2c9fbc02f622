"""A realistic record, built through the services that build it in earnest."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from omniweb.accounts.models import Team
from omniweb.core.ids import ref
from trajectories.blobs import blob_store
from trajectories.models import Step, Trajectory
from trajectories.services import NewStep, step_append, steps_append, trajectory_open
from trajectories.steps import StepKind

APPROVER = "approver@example.org"


def record(team: Team, title: str = "Flaky checkout test") -> Trajectory:
    """Return a fresh trajectory with its opening step."""
    trajectory = trajectory_open(team=team, title=title)
    append(
        trajectory,
        StepKind.RUN_OPENED,
        run=ref("run", uuid.uuid4()),
        agent="fix-bot",
        owner="owner@example.org",
        policy="engineering",
        policy_version=14,
        environment="docker",
        provider="docker",
        execution_surface="sandbox",
    )
    return trajectory


def append(trajectory: Trajectory, kind: StepKind, actor: str = "system", **payload: Any) -> Step:
    """Append one step in a transaction of its own."""
    with transaction.atomic():
        return step_append(trajectory=trajectory, kind=kind, actor=actor, payload=payload)


def notes(trajectory: Trajectory, texts: Sequence[str]) -> list[Step]:
    """Append notes in one batch."""
    steps = [NewStep(kind=StepKind.NOTE, actor="system", payload={"text": text}) for text in texts]
    with transaction.atomic():
        return steps_append(trajectory=trajectory, steps=steps)


def said(trajectory: Trajectory, text: str) -> Step:
    """Let the agent say something."""
    return append(trajectory, StepKind.MESSAGE, "agent fix-bot", role="assistant", text=text)


class Command:
    """A command whose story is told step by step."""

    def __init__(self, trajectory: Trajectory, script: str, effect: str = "allow") -> None:
        self.trajectory = trajectory
        self.script = script
        self.key = uuid.uuid4()
        self.execution = ref("exe", self.key)
        self.request = ref("req", self.key)
        append(
            trajectory,
            StepKind.AUTHORITY_DECISION,
            "policy",
            decision=ref("dec", self.key),
            capability="process.exec",
            target=script,
            effect=effect,
            reason_code=f"matched_{effect}",
            reason="Not here.",
            matched_rules=[f"{effect}_commands"],
            policy="engineering",
            policy_version=14,
            subject=str(self.key),
        )

    def asked(self) -> Command:
        """People are asked."""
        append(
            self.trajectory,
            StepKind.REQUEST_OPENED,
            "policy",
            request=self.request,
            sentence=f"Run {self.script}",
            subject=str(self.key),
        )
        return self

    def decided(
        self, *, verdict: str = "approve", reason: str = "", waited_ms: int = 134_000
    ) -> Command:
        """One person votes, and that decides."""
        about = {"request": self.request, "reason": reason, "subject": str(self.key)}
        append(
            self.trajectory, StepKind.VOTE, APPROVER,
            verdict=verdict, scope="once", voter=APPROVER, **about,
        )  # fmt: skip
        outcome = {"approve": "approved", "reject": "rejected"}[verdict]
        append(
            self.trajectory, StepKind.REQUEST_DECIDED, APPROVER,
            outcome=outcome, by=APPROVER, waited_ms=waited_ms, **about,
        )  # fmt: skip
        return self

    def started(self) -> Command:
        """A worker hands it to the provider."""
        append(
            self.trajectory,
            StepKind.EXECUTION_STARTED,
            "worker",
            execution=self.execution,
            argv=["sh", "-c", self.script],
            cwd="/workspace",
        )
        return self

    def ended(
        self, stdout: bytes = b"", *, exit_code: int | None = 0, state: str = "finished"
    ) -> Command:
        """It ends, with output."""
        if stdout:
            blob = blob_store(team=self.trajectory.team, data=stdout)
            append(
                self.trajectory, StepKind.OUTPUT, "worker",
                execution=self.execution, stream="stdout", digest=blob.digest,
                size=blob.size, kept=blob.size,
            )  # fmt: skip
        append(
            self.trajectory, StepKind.EXECUTION_ENDED, "worker",
            execution=self.execution, state=state, exit_code=exit_code, duration_ms=48_200.5,
        )  # fmt: skip
        return self

    def run(self, stdout: bytes = b"", *, exit_code: int = 0) -> Command:
        """It starts and ends."""
        return self.started().ended(stdout, exit_code=exit_code)
