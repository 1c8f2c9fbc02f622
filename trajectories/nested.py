"""A trajectory as nested JSON: segments, steps, tool calls, executions.

The shape that readers of agent trajectories expect: a step per turn, a tool call per command, in
it the policy's answers and the execution with its output. Every command is there, also one that
was refused or has not ended; its state says so.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from trajectories.commands import CommandSteps, is_command
from trajectories.models import Blob, Step, Trajectory, at_text
from trajectories.steps import StepKind

VERSION = "omniweb.trajectory/v1"
# Of a longer output the first bytes are given; the rest is at the reference.
MAX_OUTPUT_BYTES = 64_000

_OUTCOMES = {
    "denied": "denied",
    "rejected": "denied",
    "expired": "rejected",
    "stale": "rejected",
    "superseded": "rejected",
    "withdrawn": "cancelled",
    "cancelled": "cancelled",
    "timed_out": "timeout",
    "waiting": "awaiting_approval",
    "failed": "error",
    "unknown": "error",
}

_PLACES: dict[str, str] = {StepKind.MESSAGE: "runtime_messages", StepKind.MODEL_CALL: "model_calls"}

Json = dict[str, Any]


def nested_trajectory(trajectory: Trajectory, *, run_facts: Mapping[str, Any]) -> Json:
    """Return the whole trajectory nested; `run_facts` are merged in at the top.

    Expected facts: `run_id`, `agent_name`, `status`, and whatever else the run's room knows.
    """
    steps = list(Step.objects.filter(trajectory=trajectory).order_by("seq"))
    body = _Body(trajectory, steps)
    status = str(run_facts.get("status", ""))
    segment = {
        "trace_id": trajectory.ref,
        "status": status,
        "trace_kept": True,
        "trajectory": {**body.to_dict(), "status": status},
    }
    return {
        **run_facts,
        "session_id": trajectory.ref,
        "segments": [segment],
        "traces_missing": 0,
        "totals": body.totals(),
    }


class _Body:
    """Builds one segment's trajectory."""

    def __init__(self, trajectory: Trajectory, steps: Sequence[Step]) -> None:
        self.trajectory = trajectory
        self.steps = steps
        self.opened: Mapping[str, Any] = {}
        self.providers: dict[str, str] = {}
        self.groups: dict[uuid.UUID, list[Step]] = defaultdict(list)
        for step in steps:
            if step.kind == StepKind.RUN_OPENED:
                self.opened = step.payload
            elif step.kind == StepKind.SANDBOX_STATE:
                self.providers[step.payload["sandbox"]] = step.payload.get("provider", "")
            if step.about:
                self.groups[step.about].append(step)
        self.commands = {
            key: CommandSteps(group) for key, group in self.groups.items() if is_command(group)
        }

    def to_dict(self) -> Json:
        """Return the trajectory of the segment."""
        turns: dict[int, Json] = {}
        other: list[Json] = []
        for step in self.steps:
            command = self.commands.get(step.about) if step.about else None
            if command and command.all[0].seq != step.seq:
                continue
            if not step.turn and not command:
                other.append(step.to_dict())
                continue
            turn = turns.setdefault(step.turn, _turn(step))
            turn["ended_at"] = at_text(step)
            if command:
                turn["tool_calls"].append(self._tool_call(command))
            else:
                turn[_PLACES.get(step.kind, "other_events")].append(step.to_dict())
        ended = next((s for s in reversed(self.steps) if s.kind == StepKind.RUN_ENDED), None)
        return {
            "trajectory_version": VERSION,
            "trace_id": self.trajectory.ref,
            "run_id": self.opened.get("run"),
            "agent_id": self.opened.get("agent"),
            "execution_surface": self.opened.get("execution_surface"),
            "evidence_status": "complete",
            "incomplete": ended is None,
            "started_at": at_text(self.steps[0]) if self.steps else None,
            "ended_at": at_text(ended) if ended else None,
            "harness": dict(self.opened),
            "steps": list(turns.values()),
            "totals": self.totals(),
            "capture_gaps": [],
            "other_events": other,
        }

    def _tool_call(self, command: CommandSteps) -> Json:
        execution = self._execution(command)
        return {
            "tool_call_id": execution["execution_id"],
            "tool_name": "execute",
            "provider": execution["sandbox_provider"],
            "outcome": _outcome(command),
            "arguments": {"command": execution["command"]},
            "governance": [
                entry for step in command.all if (entry := self._governance(step)) is not None
            ],
            "executions": [execution],
            "event_ids": [self._event(step) for step in command.all],
        }

    def _governance(self, step: Step) -> Json | None:
        data = step.payload
        if step.kind == StepKind.AUTHORITY_DECISION:
            entry = {
                "effect": data["effect"],
                "capability": data["capability"],
                "reason_code": data.get("reason_code", ""),
                "matched_rule_ids": data.get("matched_rules", []),
                "approval_id": None,
            }
        elif step.kind == StepKind.REQUEST_DECIDED:
            is_yes = data["outcome"] == "approved"
            entry = {
                "effect": "allow" if is_yes else "deny",
                "capability": None,
                "reason_code": "approved" if is_yes else "denied",
                "matched_rule_ids": [],
                "approval_id": data["request"],
                "reason": data.get("reason", ""),
            }
        else:
            return None
        by = data.get("by")
        is_yes = entry["effect"] == "allow"
        entry |= {"approved_by": by if is_yes else None, "denied_by": None if is_yes else by}
        return {"event_id": self._event(step), **entry}

    def _execution(self, of: CommandSteps) -> Json:
        """Return one execution entry; a command that never started has one too, without a start."""
        began: Mapping[str, Any] = of.started.payload if of.started else {}
        end: Mapping[str, Any] = of.ended.payload if of.ended else {}
        decided: Mapping[str, Any] = of.decision.payload if of.decision else {}
        streams = {step.payload["stream"]: step.payload for step in of.outputs}
        stdout, stderr = streams.get("stdout", {}), streams.get("stderr", {})
        sandbox = began.get("sandbox")
        known = self.providers.get(sandbox or "") or self.opened.get("provider")
        return {
            "event_id": self._event(of.ended or of.started or of.all[0]),
            "execution_id": of.reference or None,
            "sandbox_session_id": sandbox,
            "sandbox_provider": began.get("provider") or known,
            "exit_code": end.get("exit_code"),
            "timed_out": end.get("timed_out", False),
            "duration_ms": end.get("duration_ms"),
            "stdout_bytes": stdout.get("size", 0),
            "stderr_bytes": stderr.get("size", 0),
            "stdout_truncated": end.get("stdout_truncated", False),
            "stderr_truncated": end.get("stderr_truncated", False),
            "matched_rule_ids": decided.get("matched_rules", []),
            "command": began.get("argv") or ([of.written] if of.written else []),
            "stdout": self._text(stdout),
            "stderr": self._text(stderr),
            "output_capture": _capture(end, stdout, stderr),
            "error": end.get("error") or None,
            "execution_surface": self.opened.get("execution_surface"),
            "started_at": at_text(of.started) if of.started else None,
            "state": of.state(),
        }

    def _text(self, stream: Mapping[str, Any]) -> str:
        digest = stream.get("digest")
        if not digest:
            return ""
        blob = Blob.objects.filter(team_id=self.trajectory.team_id, digest=digest).first()
        return bytes(blob.data[:MAX_OUTPUT_BYTES]).decode("utf-8", "replace") if blob else ""

    def _event(self, step: Step) -> str:
        return f"{self.trajectory.ref}/{step.seq}"

    def totals(self) -> Json:
        """Return what the trajectory adds up to."""
        tally = self.trajectory.tally
        by_outcome = Counter(_outcome(command) for command in self.commands.values())
        timed_out = sum(
            bool(command.ended and command.ended.payload.get("timed_out"))
            for command in self.commands.values()
        )
        return {
            "steps": tally.turns,
            "events": tally.steps,
            "model_calls": {"total": tally.kinds.get(StepKind.MODEL_CALL, 0)},
            "estimated_cost_usd": tally.cost_usd,
            "tool_calls": {"total": len(self.commands), "by_outcome": dict(by_outcome)},
            "executions": {
                "sessions": len(self.providers),
                "commands": tally.ran,
                "failed": tally.failed,
                "timed_out": timed_out,
            },
        }


def _turn(step: Step) -> Json:
    return {
        "step": step.turn,
        "started_at": at_text(step),
        "ended_at": at_text(step),
        "runtime_messages": [],
        "model_calls": [],
        "tool_calls": [],
        "other_events": [],
    }


def _outcome(command: CommandSteps) -> str:
    state = command.state()
    if state == "finished":
        code = command.ended.payload.get("exit_code") if command.ended else None
        return "success" if code == 0 else "error"
    return _OUTCOMES.get(state, state)


def _capture(end: Mapping[str, Any], *streams: Mapping[str, Any]) -> Json:
    """Say whether all output is in the entry, and if not, where it is."""
    is_cut = any(stream.get("kept", 0) > MAX_OUTPUT_BYTES for stream in streams)
    is_dropped = end.get("stdout_truncated", False) or end.get("stderr_truncated", False)
    digests = [stream["digest"] for stream in streams if stream.get("digest")]
    if not end:
        return {"state": "missing", "reason": "the command has not ended", "reference": None}
    if is_cut or is_dropped:
        reason = "over the output limit" if is_dropped else "the rest is in the blobs"
        return {"state": "truncated", "reason": reason, "reference": digests}
    return {"state": "available", "reason": None, "reference": digests or None}
