"""The totals of a trajectory and its minimap, kept up to date as steps are appended.

A page about 100,000 steps needs them as fast as one about ten, so they are
stored beside the head; verifying the chain counts them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trajectories.flags import Flag, flag_of
from trajectories.steps import COMMAND_CAPABILITY, StepKind

# The most bars a minimap has; beyond it each bar stands for twice as many steps.
MAX_BARS = 600

_COUNTED_EFFECTS = {"allow": "allowed", "ask": "asked", "deny": "denied"}


@dataclass(kw_only=True)
class Tally:
    """What a trajectory adds up to.

    `strip` has one digit (a Flag) per bar of the minimap, each bar for `width` steps.
    `commands` counts those asked for, `ran` those started, `failed` those that ended badly
    after a start. `waited_ms` adds up how long requests waited for the people who decided.
    """

    kinds: dict[str, int] = field(default_factory=dict)
    commands: int = 0
    ran: int = 0
    failed: int = 0
    unknown: int = 0
    allowed: int = 0
    asked: int = 0
    denied: int = 0
    approved: int = 0
    rejected: int = 0
    expired: int = 0
    approvers: list[str] = field(default_factory=list)
    waited_ms: int = 0
    duration_ms: float = 0
    cost_usd: float = 0
    files_written: list[str] = field(default_factory=list)
    turns: int = 0
    has_speech: bool = False
    width: int = 1
    strip: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as it is stored."""
        return asdict(self)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return sum(self.kinds.values())

    def add(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Count one more step, the next in order."""
        self._draw(flag_of(kind, payload))
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self._turn(kind, payload)
        match kind:
            case StepKind.AUTHORITY_DECISION:
                self._decision(payload)
            case StepKind.REQUEST_DECIDED:
                self._decided(payload)
            case StepKind.EXECUTION_STARTED:
                self.ran += 1
            case StepKind.EXECUTION_ENDED:
                self._ended(payload)
            case StepKind.MODEL_CALL:
                self.cost_usd += payload.get("cost_usd", 0)
            case StepKind.FILE_WRITTEN if len(self.files_written) < 50:
                if payload["path"] not in self.files_written:
                    self.files_written.append(payload["path"])

    def _turn(self, kind: str, payload: Mapping[str, Any]) -> None:
        # A turn starts when the agent speaks; of an agent that never does, with each command.
        if kind == StepKind.MESSAGE and payload["role"] == "assistant":
            self.has_speech = True
            self.turns += 1
        elif not self.has_speech and _asks_for_command(kind, payload):
            self.turns += 1

    def _decision(self, payload: Mapping[str, Any]) -> None:
        name = _COUNTED_EFFECTS[payload["effect"]]
        setattr(self, name, getattr(self, name) + 1)
        self.commands += payload["capability"] == COMMAND_CAPABILITY

    def _decided(self, payload: Mapping[str, Any]) -> None:
        outcome = payload["outcome"]
        if outcome == "expired":
            self.expired += 1
        if outcome not in ("approved", "rejected"):
            return
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.waited_ms += payload.get("waited_ms", 0)
        by = payload.get("by")
        if by and by not in self.approvers and len(self.approvers) < 10:
            self.approvers.append(by)

    def _ended(self, payload: Mapping[str, Any]) -> None:
        self.duration_ms += payload.get("duration_ms", 0)
        if payload["state"] == "unknown":
            self.unknown += 1
        elif payload.get("exit_code") or payload["state"] in ("failed", "timed_out"):
            self.failed += 1

    def _draw(self, flag: Flag) -> None:
        if self.steps % self.width:
            self.strip = self.strip[:-1] + max(self.strip[-1], str(int(flag)))
            return
        if len(self.strip) == MAX_BARS:
            pairs = zip(self.strip[::2], self.strip[1::2], strict=True)
            self.strip = "".join(map(max, pairs))
            self.width *= 2
        self.strip += str(int(flag))


def _asks_for_command(kind: str, payload: Mapping[str, Any]) -> bool:
    return kind == StepKind.AUTHORITY_DECISION and payload["capability"] == COMMAND_CAPABILITY
