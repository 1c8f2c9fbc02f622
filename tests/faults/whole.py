"""What must hold once everything has come to rest, whatever went wrong before.

Also run by `manage.py shell` in installations that a test has made, so it needs no fixture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from approvals.models import Request, RequestState
from approvals.selectors import inbox, inbox_count
from omniweb.accounts.models import Role, Team
from omniweb.accounts.permissions import Actor
from omniweb.core.installation import installation_id
from sandboxes.models import Execution, ExecutionState, OutputChunk, Run, RunState, Sandbox
from sandboxes.models.run import ENDED
from sandboxes.models.sandbox import GONE
from sandboxes.providers import process_tree
from sandboxes.providers.registry import open_provider
from trajectories.ledger import verify
from trajectories.models import Step, Trajectory
from trajectories.steps import StepKind

# What commands in these tests do to show that they ran: one word of their own in a file.
EFFECT = re.compile(r"echo (\S+) >> ([^\s;]+)")
# Ends after which a command has certainly done nothing.
NEVER_RAN = frozenset("denied rejected expired stale".split())


def assert_whole() -> None:
    """Fail with all that is not as it must be."""
    wrong = [*_records(), *_runs(), *_requests(), *_executions(), *_sandboxes(), *_badges()]
    wrong += [*_effects(), *_left_behind()]
    assert not wrong, "\n".join(wrong)


def _records() -> Iterable[str]:
    for trajectory in Trajectory.objects.all():
        found = verify(trajectory)
        if not found.ok:
            yield f"{trajectory.ref} does not verify: {found.why}"


def _runs() -> Iterable[str]:
    for run in Run.objects.select_related("trajectory"):
        is_open = Request.objects.filter(trajectory=run.trajectory, state="open").exists()
        expected = {
            RunState.ACTIVE: not is_open and run.cleared_at is not None,
            RunState.WAITING: is_open,
            RunState.OPENING: False,
            RunState.FINISHING: False,
        }
        if not expected.get(RunState(run.state), not is_open):
            yield f"{run.ref} is {run.state} with {'an' if is_open else 'no'} open request"
        if (run.state in ENDED) != (run.trajectory.sealed_at is not None):
            yield f"{run.ref} is {run.state}, its record was sealed at {run.trajectory.sealed_at}"
        if (run.state in ENDED) != (run.ended_at is not None):
            yield f"{run.ref} is {run.state} and ended at {run.ended_at}"


def _requests() -> Iterable[str]:
    for request in Request.objects.filter(state=RequestState.OPEN):
        waits = (
            Execution.objects.filter(pk=request.subject_id, state="waiting").exists()
            or Run.objects.filter(pk=request.subject_id, state="waiting").exists()
        )
        if not waits:
            yield f"{request.ref} is open, and nothing waits for it"
    for request in Request.objects.filter(state=RequestState.APPROVED):
        if Execution.objects.filter(pk=request.subject_id, started_at__isnull=False).exists():
            yield f"{request.ref} was used and not spent"


def _executions() -> Iterable[str]:
    for execution in Execution.objects.select_related("run", "request"):
        told = Counter(
            Step.objects.filter(
                about=execution.pk, kind__in=["execution_started", "execution_ended"]
            ).values_list("kind", flat=True)
        )
        started = told[StepKind.EXECUTION_STARTED.value]
        ended = told[StepKind.EXECUTION_ENDED.value]
        yield from (f"{execution.ref} ({execution.state}) {why}" for why in _why(execution))
        if started != (execution.started_at is not None):
            yield f"{execution.ref} ({execution.state}) was told to start {started} times"
        if started and ended != 1:
            yield f"{execution.ref} ({execution.state}) was told to end {ended} times"


def _why(execution: Execution) -> Iterable[str]:
    state, run = execution.state, execution.run
    if not execution.is_settled:
        waits = state == ExecutionState.WAITING and run.state == RunState.WAITING
        held = state == ExecutionState.QUEUED and run.cleared_at is None and not run.is_over
        if not (waits or held):
            yield f"is not settled, in a run that is {run.state}"
    elif execution.ended_at is None:
        yield "has no end"
    if state == ExecutionState.FINISHED and execution.exit_code is None:
        yield "has no exit code"
    if state == ExecutionState.UNKNOWN and execution.started_at is None:
        yield "was never handed over, so it cannot have run"
    if execution.is_settled and OutputChunk.objects.filter(execution=execution).exists():
        yield "has output that was not put away"


def _sandboxes() -> Iterable[str]:
    for sandbox in Sandbox.objects.exclude(state__in=GONE).select_related("run"):
        if sandbox.run.is_over or sandbox.state != "ready":
            yield f"{sandbox.ref} is {sandbox.state} in a run that is {sandbox.run.state}"


def _badges() -> Iterable[str]:
    for team in Team.objects.all():
        actor = Actor(team=team, role=Role.APPROVER)
        counts = (
            inbox_count(actor),
            inbox(actor).count(),
            Execution.objects.filter(team=team, state="waiting").count()
            + Run.objects.filter(team=team, state="waiting", cleared_at__isnull=True).count(),
        )
        if len(set(counts)) != 1:
            yield f"badge, list and waiting of {team} differ: {counts}"


def _effects() -> Iterable[str]:
    """Compare what commands have written with what is known of them."""
    ends: dict[tuple[str, str], list[str]] = {}
    for execution in Execution.objects.all():
        if effect := _effect(execution):
            ends.setdefault(effect, []).append(execution.state)
    for (path, word), states in ends.items():
        lines = Path(path).read_text().split("\n") if Path(path).exists() else []
        ran = lines.count(word)
        most = sum(state not in NEVER_RAN for state in states)
        if not states.count("finished") <= ran <= min(most, 1):
            yield f"{word} ran {ran} times: {states}"


def _effect(execution: Execution) -> tuple[str, str] | None:
    """Return file and word of a command: of `sh -c "echo WORD >> FILE"` or `tee -a FILE`."""
    if execution.argv[0] == "tee" and execution.stdin is not None:
        return execution.argv[-1], bytes(execution.stdin).decode().strip()
    found = EFFECT.search(execution.argv[-1])
    return (found[2], found[1]) if found else None


def _left_behind() -> Iterable[str]:
    """Look at the machine: only sandboxes that are ready may be there, and nothing runs in them."""
    install = installation_id()
    for process in process_tree.marked(f"{install}/"):
        yield f"process {process.pid} of {process.mark} is still there"
    ready = {sandbox.ref for sandbox in Sandbox.objects.filter(state="ready")}
    if Run.objects.filter(provider="docker").exists():
        for owned in open_provider("docker", {}).list_owned(install):
            if owned.sandbox not in ready:
                yield f"the container of {owned.sandbox} is still there"
