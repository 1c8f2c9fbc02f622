"""Large tables, quickly: rows as the services leave them, and copies of those.

Runs inside the installation that is measured: `manage.py shell -c "from tests.bench.fill import …"`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from copy import copy
from itertools import batched
from typing import Any

from django.db import transaction

from approvals.models import Decision, Request
from approvals.over import recorded
from approvals.selectors import policy_for
from omniweb.accounts.models import Team, User
from omniweb.accounts.permissions import Actor, system
from omniweb.accounts.services import token_create
from omniweb.core.canonical import digest
from omniweb.core.clock import now
from omniweb.core.ids import ref, uuid7
from omniweb.core.models import Row
from sandboxes.models import Execution, Run, RunState
from sandboxes.providers.base import Command
from sandboxes.selectors import environment_named
from sandboxes.services.executions import execution_ask
from sandboxes.services.profiles import agent_register
from sandboxes.services.runs import run_end, run_open
from trajectories.models import Trajectory
from trajectories.services import NewStep, steps_append
from trajectories.steps import StepKind

BATCH = 500
# Executions in a run: with so few, a hundred are already a full page of runs.
RUN_SIZE = 2
LINES = ("pytest -q tests/checkout", "git status", "npm ci", "rg -n retry src", "make lint")


def agent(name: str) -> Actor:
    """Register an agent on this machine, under a policy that asks for nothing."""
    team = Team.objects.get()
    identity = agent_register(
        actor=system(team),
        name=name,
        owner=User.objects.order_by("id")[0],
        policy=policy_for(team, "bench"),
        environment=environment_named(team, "local"),
    )
    return Actor(team=team, agent=identity)


def tokens(count: int) -> str:
    """Register so many agents; return a token of each, as JSON."""
    agents = [agent(f"agent-{number}") for number in range(count)]
    made = [token_create(actor=system(one.team), agent=one.agent) for one in agents]
    return json.dumps([secret for _, secret in made])


def run_of(steps: int) -> str:
    """Open a run whose record has so many steps; return its reference."""
    run = run_open(actor=agent(f"steps-{steps}"), title=f"A run of {steps} steps")
    for some in batched(commands(steps - run.trajectory.head_seq), BATCH):
        with transaction.atomic():
            steps_append(trajectory=run.trajectory, steps=some)
    return run.ref


def commands(count: int) -> Iterator[NewStep]:
    """Yield so many steps: commands that are decided, started, and ended."""
    for number in range(count):
        turn, part = divmod(number, 3)
        key = uuid.UUID(int=turn)
        script = f"{LINES[turn % len(LINES)]} # {turn}"
        kinds = (StepKind.AUTHORITY_DECISION, StepKind.EXECUTION_STARTED, StepKind.EXECUTION_ENDED)
        yield NewStep(
            kind=kinds[part],
            actor="worker" if part else "policy",
            payload=(_decided, _started, _ended)[part](key, script),
        )


def _decided(key: uuid.UUID, script: str) -> dict[str, Any]:
    return {
        "decision": ref("dec", key),
        "capability": "process.exec",
        "target": script,
        "effect": "allow",
        "reason_code": "matched_allow",
        "reason": "",
        "matched_rules": ["allow_sandboxed_execution"],
        "policy": "engineering",
        "policy_version": 14,
        "constraints": {"sandbox_required": True},
        "subject": str(key),
    }


def _started(key: uuid.UUID, script: str) -> dict[str, Any]:
    return {
        "execution": ref("exe", key),
        "argv": ["sh", "-c", script],
        "cwd": "/workspace",
        "time_limit_seconds": 60,
        "sandbox": ref("sbx", key),
        "provider": "docker",
    }


def _ended(key: uuid.UUID, script: str) -> dict[str, Any]:
    return {"execution": ref("exe", key), "state": "finished", "exit_code": 0, "duration_ms": 412.5}


def copied[R: Row](row: R, **changes: Any) -> R:
    """Return a row like another, not saved yet, with a key of its own."""
    twin = copy(row)
    for name, value in {"id": uuid7(), "created_at": now(), **changes}.items():
        setattr(twin, name, value)
    return twin


def requests(count: int) -> None:
    """Let an agent ask for one command, and copy its request until so many are open."""
    actor = agent("waiting")
    run = run_open(actor=actor, title="Publish the fix")
    command = Command(argv=("true", "--reviewed"))
    execution = execution_ask(actor=actor, run=run, command=command)
    request = Request.objects.get(subject_id=execution.id)
    for numbers in batched(range(count - 1), BATCH):
        Request.objects.bulk_create([copied(request) for _ in numbers])


def executions(count: int) -> None:
    """Let an agent run one command, and copy its run until there are so many executions."""
    actor = agent("busy")
    run = run_open(actor=actor, title="Fix the flaky checkout test")
    run_end(actor=actor, run=run, outcome=RunState.SUCCEEDED)
    for numbers in batched(range(count // RUN_SIZE), BATCH):
        records = [copied(run.trajectory) for _ in numbers]
        runs = [copied(run, trajectory=record, state="succeeded") for record in records]
        Trajectory.objects.bulk_create(records)
        Run.objects.bulk_create(runs)
        for some in batched((row for one in runs for row in _finished(one)), BATCH):
            Execution.objects.bulk_create(some)


def decisions(count: int) -> None:
    """Let an agent ask for one command, and copy the decision with half as many commands."""
    actor = agent("decided")
    run = run_open(actor=actor, title="A week of work")
    execution = execution_ask(actor=actor, run=run, command=Command(argv=("true",)))
    decision = Decision.objects.get(subject_id=execution.id)
    for numbers in batched(range(count), BATCH):
        Decision.objects.bulk_create([copied(decision, **_asking(decision, n)) for n in numbers])


def _asking(decision: Decision, number: int) -> dict[str, Any]:
    script = f"{LINES[number % len(LINES)]} -{number if number % 2 else 0}"
    asked = decision.authority_request | {"command": ["sh", "-c", script]}
    return {"authority_request": asked, "subject_id": uuid7()}


def decisions_read() -> float:
    """Read all decisions as a replay does; return the seconds it takes."""
    start = time.perf_counter()
    for _ in recorded(Decision.objects.all()):
        pass
    return time.perf_counter() - start


def _finished(run: Run) -> Iterator[Execution]:
    for number in range(RUN_SIZE):
        yield Execution(
            team_id=run.team_id,
            run=run,
            argv=["sh", "-c", LINES[number % len(LINES)]],
            cwd="/workspace",
            time_limit_seconds=60,
            digest=digest(number),
            state="finished",
            queued_at=now(),
            started_at=now(),
            ended_at=now(),
            exit_code=0 if number else 1,
        )
