"""What a reader skimming a whole run should see of each step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Any

from trajectories.steps import StepKind


@unique
class Flag(IntEnum):
    """What a reader skimming all steps should see of one; of several, the greatest."""

    PLAIN = 0
    TALK = 1
    GOOD = 2
    WAIT = 3
    UNSURE = 4
    BAD = 5


_FLAG_OF_STATE = {"finished": Flag.GOOD, "unknown": Flag.UNSURE, "cancelled": Flag.PLAIN}
_FLAG_OF_OUTCOME = {"approved": Flag.GOOD, "rejected": Flag.BAD}
_FLAG_OF_RUN = {"succeeded": Flag.GOOD, "failed": Flag.BAD, "refused": Flag.BAD}


def flag_of(kind: str, payload: Mapping[str, Any]) -> Flag:
    """Return what to show of a step in the minimap."""
    match kind:
        case StepKind.MESSAGE | StepKind.MODEL_CALL | StepKind.ANNOTATION:
            return Flag.TALK
        case StepKind.AUTHORITY_DECISION:
            return {"ask": Flag.WAIT, "deny": Flag.BAD}.get(payload["effect"], Flag.PLAIN)
        case StepKind.REQUEST_OPENED:
            return Flag.WAIT
        case StepKind.REQUEST_DECIDED:
            return _FLAG_OF_OUTCOME.get(payload["outcome"], Flag.PLAIN)
        case StepKind.EXECUTION_ENDED if payload.get("exit_code"):
            return Flag.BAD
        case StepKind.EXECUTION_ENDED:
            return _FLAG_OF_STATE.get(payload["state"], Flag.BAD)
        case StepKind.RUN_ENDED:
            return _FLAG_OF_RUN.get(payload["state"], Flag.PLAIN)
        case StepKind.GUARDRAIL:
            return Flag.UNSURE
        case _:
            return Flag.PLAIN
