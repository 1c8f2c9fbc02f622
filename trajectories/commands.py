"""The steps about one command, read as its story: asked, decided, started, ended."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trajectories.models import Step
from trajectories.steps import COMMAND_CAPABILITY, StepKind

_COMMAND_KINDS = frozenset({StepKind.EXECUTION_STARTED, StepKind.OUTPUT, StepKind.EXECUTION_ENDED})


def is_command(steps: Sequence[Step]) -> bool:
    """Whether steps about one thing are about a command."""
    return any(
        step.kind in _COMMAND_KINDS
        or (
            step.kind == StepKind.AUTHORITY_DECISION
            and step.payload["capability"] == COMMAND_CAPABILITY
        )
        for step in steps
    )


class CommandSteps:
    """The steps about one command, by what they are."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = steps
        self.decision = self._last(StepKind.AUTHORITY_DECISION)
        self.request = self._last(StepKind.REQUEST_OPENED)
        self.decided = self._last(StepKind.REQUEST_DECIDED)
        self.grant = self._last(StepKind.GRANT_USED)
        self.started = self._last(StepKind.EXECUTION_STARTED)
        self.ended = self._last(StepKind.EXECUTION_ENDED)
        self.votes = [step for step in steps if step.kind == StepKind.VOTE]
        self.outputs = [step for step in steps if step.kind == StepKind.OUTPUT]
        self.opened_at = {
            step.payload["request"]: step.at
            for step in steps
            if step.kind == StepKind.REQUEST_OPENED
        }

    def _last(self, kind: StepKind) -> Step | None:
        return next((step for step in reversed(self.all) if step.kind == kind), None)

    def state(self) -> str:
        """Return where the command stands, as far as the record tells."""
        if self.ended:
            return str(self.ended.payload["state"])
        if self.started:
            return "running"
        # A newer request reopens what an earlier one had decided.
        if self.request and not (self.decided and self.decided.seq > self.request.seq):
            return "waiting"
        if self.decided:
            outcome = str(self.decided.payload["outcome"])
            return "queued" if outcome == "approved" else outcome
        effect = self.decision.payload["effect"] if self.decision else ""
        is_asked = effect == "ask" and not self.grant
        return "denied" if effect == "deny" else "waiting" if is_asked else "queued"

    @property
    def reference(self) -> str:
        """The `exe_…` reference, when a step has told it."""
        told = (step.payload.get("execution") for step in self.all)
        return next((reference for reference in told if reference), "")

    @property
    def written(self) -> str:
        """The command as it was written."""
        if self.decision:
            asked = self.decision.payload.get("command") or self.decision.payload.get("target")
            if asked:
                return str(asked)
        return shlex.join(self.started.payload["argv"]) if self.started else ""
