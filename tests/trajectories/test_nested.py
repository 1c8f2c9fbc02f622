"""The nested JSON: every command is in it, with the keys readers expect."""

from __future__ import annotations

import json

from tests.trajectories.build import APPROVER, Command, append, said
from trajectories.models import Trajectory
from trajectories.nested import nested_trajectory
from trajectories.steps import StepKind

EXECUTION_KEYS = {
    "event_id", "execution_id", "sandbox_session_id", "sandbox_provider", "exit_code", "timed_out",
    "duration_ms", "stdout_bytes", "stderr_bytes", "stdout_truncated", "stderr_truncated",
    "matched_rule_ids", "command", "stdout", "stderr", "output_capture", "error",
    "execution_surface", "started_at", "state",
}  # fmt: skip


def nested(trajectory: Trajectory) -> dict[str, object]:
    facts = {"run_id": "run_1", "agent_name": "fix-bot", "status": "completed"}
    return nested_trajectory(trajectory, run_facts=facts)


def test_a_run_is_segments_steps_tool_calls_and_executions(trajectory: Trajectory) -> None:
    said(trajectory, "Testing.")
    command = Command(trajectory, "npm test").run(b"ok\n", exit_code=3)
    append(trajectory, StepKind.RUN_ENDED, state="succeeded")
    found = nested(trajectory)
    assert json.loads(json.dumps(found)) == found
    assert found["run_id"] == "run_1"
    segments = found["segments"]
    assert isinstance(segments, list)
    inner = segments[0]["trajectory"]
    assert (inner["incomplete"], inner["agent_id"]) == (False, "fix-bot")
    [step] = inner["steps"]
    assert step["runtime_messages"][0]["payload"]["text"] == "Testing."
    [call] = step["tool_calls"]
    assert (call["tool_name"], call["outcome"]) == ("execute", "error")
    assert call["governance"][0]["matched_rule_ids"] == ["allow_commands"]
    [execution] = call["executions"]
    assert set(execution) == EXECUTION_KEYS
    assert execution["execution_id"] == command.execution
    assert execution["sandbox_provider"] == "docker"
    assert (execution["exit_code"], execution["duration_ms"]) == (3, 48_200.5)
    assert (execution["stdout"], execution["stdout_bytes"]) == ("ok\n", 3)
    assert execution["command"] == ["sh", "-c", "npm test"]
    assert execution["output_capture"]["state"] == "available"
    assert inner["totals"]["executions"] == {
        "sessions": 0, "commands": 1, "failed": 1, "timed_out": 0,
    }  # fmt: skip


def test_commands_that_have_not_ended_or_never_started_are_there(trajectory: Trajectory) -> None:
    Command(trajectory, "sleep 9").started()
    Command(trajectory, "git push", "ask").asked()
    Command(trajectory, "git tag", "ask").asked().decided(verdict="reject", reason="no")
    Command(trajectory, "rm x", "deny")
    segments = nested(trajectory)["segments"]
    assert isinstance(segments, list)
    calls = [call for step in segments[0]["trajectory"]["steps"] for call in step["tool_calls"]]
    assert [call["outcome"] for call in calls] == [
        "running", "awaiting_approval", "denied", "denied",
    ]  # fmt: skip
    executions = [call["executions"][0] for call in calls]
    assert [item["state"] for item in executions] == ["running", "waiting", "rejected", "denied"]
    assert executions[0]["started_at"]
    assert executions[1]["started_at"] is None
    assert executions[1]["command"] == ["git push"]
    assert calls[2]["governance"][1]["denied_by"] == APPROVER
    assert segments[0]["trajectory"]["incomplete"]


def test_of_a_long_output_the_entry_says_where_the_rest_is(trajectory: Trajectory) -> None:
    Command(trajectory, "yes").run(b"y\n" * 40_000)
    segments = nested(trajectory)["segments"]
    assert isinstance(segments, list)
    [step] = segments[0]["trajectory"]["steps"]
    [execution] = step["tool_calls"][0]["executions"]
    assert len(execution["stdout"]) == 64_000
    assert execution["stdout_bytes"] == 80_000
    assert execution["output_capture"]["state"] == "truncated"
    assert execution["output_capture"]["reference"]
