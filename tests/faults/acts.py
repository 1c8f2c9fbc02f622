"""The acts of the pipeline and the points each passes: the fault matrix, written down.

An act is prepared in the test's own process and done in one that dies. A test keeps the lists
complete, so that a change of the pipeline shows here as a change of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from approvals.models import Request, Verdict
from approvals.services.requests import requests_expire
from omniweb.core.clock import now
from sandboxes import tasks
from sandboxes.models import Sandbox
from sandboxes.services.files import file_write
from sandboxes.services.reconcile import reconcile
from sandboxes.services.sandboxes import sandbox_lost
from tests.factories import run_again, vote
from tests.faults.killing import Kill, act_killed
from tests.faults.scene import Scene, later

type Prepare = Callable[[Scene], Callable[[], object]]


def _sandbox(scene: Scene) -> Sandbox:
    return Sandbox.objects.select_related("run__trajectory").filter(run=scene.run).latest("id")


def _provision(scene: Scene) -> Callable[[], object]:
    scene.ask()
    sandbox_lost(sandbox=_sandbox(scene), reason="For the next to be made")
    return lambda: tasks.sandbox_provision(_sandbox(scene).ref)


def _execute(scene: Scene) -> Callable[[], object]:
    asked = scene.ask(asks=True)
    scene.decided()
    return lambda: tasks.execution_run(asked.ref)


def _finish(scene: Scene) -> Callable[[], object]:
    scene.bells.answer()
    scene.ended()
    return lambda: tasks.run_finish(scene.run.ref)


def _end(scene: Scene) -> Callable[[], object]:
    scene.ask()
    scene.ask(asks=True)
    return scene.ended


def _vote(verdict: Verdict) -> Prepare:
    def prepare(scene: Scene) -> Callable[[], object]:
        scene.ask(asks=True)
        scene.ask()
        request = Request.objects.filter(state="open").earliest("id")
        return lambda: vote(scene.people.approver, request, verdict)

    return prepare


def _expire(scene: Scene) -> Callable[[], object]:
    scene.ask(asks=True)
    Request.objects.update(expires_at=now())
    return requests_expire


def _ask(scene: Scene) -> Callable[[], object]:
    return lambda: scene.ask(asks=True)


def _write(scene: Scene) -> Callable[[], object]:
    run, actor = run_again(scene.run), scene.people.agent
    return lambda: file_write(actor=actor, run=run, path="notes.txt", data=b"kept")


def _reconcile(scene: Scene) -> Callable[[], object]:
    for kill in (Kill("after", 1), Kill("after", 5)):
        asked = scene.ask()
        act_killed(lambda ref=asked.ref: tasks.execution_run(ref), kill, scene.folder)  # type: ignore[misc]  # a default

    def act() -> None:
        with later():
            reconcile()

    return act


@dataclass(frozen=True)
class Act:
    """How an act is prepared, the points it passes, and whether its run has been cleared."""

    prepare: Prepare
    points: tuple[str, ...] = ()
    cleared: bool = True


ACTS: dict[str, Act] = {
    "provision": Act(
        _provision,
        (
            "Sandbox to provisioning",
            "provider.create",
            "Sandbox to ready",
            "commit",
            "ring sandboxes.execution_run",
        ),
    ),
    "execute": Act(
        _execute,
        (
            "Execution to starting",
            "Request to spent",
            "commit",
            "Execution to running",
            "commit",
            "provider.execute",
            "output",
            "Execution to finished",
            "commit",
        ),
    ),
    "finish": Act(
        _finish,
        (
            "Sandbox to terminated",
            "Sandbox to terminating",
            "provider.terminate",
            "Sandbox to terminated",
            "commit",
            "Run to succeeded",
            "commit",
        ),
    ),
    "end": Act(
        _end,
        (
            "Run to finishing",
            "Request to withdrawn",
            "Execution to cancelled",
            "Run to active",
            "Execution to cancelled",
            "commit",
            "ring sandboxes.run_finish",
        ),
    ),
    "approve": Act(
        _vote(Verdict.APPROVE),
        (
            "Request to approved",
            "Execution to queued",
            "Run to active",
            "commit",
            "ring sandboxes.execution_run",
        ),
    ),
    "reject": Act(
        _vote(Verdict.REJECT),
        (
            "Request to rejected",
            "Execution to rejected",
            "Run to active",
            "commit",
        ),
    ),
    "approve the sandbox": Act(
        _vote(Verdict.APPROVE),
        (
            "Request to approved",
            "Request to spent",
            "Run to active",
            "Run to waiting",
            "commit",
            "ring sandboxes.sandbox_provision",
            "ring sandboxes.execution_run",
        ),
        cleared=False,
    ),
    "reject the sandbox": Act(
        _vote(Verdict.REJECT),
        (
            "Request to rejected",
            "Run to refused",
            "Execution to rejected",
            "Execution to rejected",
            "Request to withdrawn",
            "Execution to cancelled",
            "Run to active",
            "commit",
        ),
        cleared=False,
    ),
    "expire": Act(
        _expire,
        (
            "Request to expired",
            "Execution to expired",
            "Run to active",
            "commit",
        ),
    ),
    "expire the sandbox": Act(
        _expire,
        (
            "Request to expired",
            "Run to refused",
            "Execution to expired",
            "Request to withdrawn",
            "Execution to cancelled",
            "Run to active",
            "commit",
            "Request to expired",
            "commit",
        ),
        cleared=False,
    ),
    "ask": Act(
        _ask,
        (
            "Execution to waiting",
            "Run to waiting",
            "commit",
        ),
    ),
    "write": Act(
        _write,
        (
            "commit",
            "provider.write_file",
            "commit",
        ),
    ),
    "reconcile": Act(
        _reconcile,
        (
            "Execution to queued",
            "commit",
            "Execution to unknown",
            "Sandbox to terminating",
            "commit",
            "ring sandboxes.execution_run",
            "ring sandboxes.sandbox_terminate",
        ),
    ),
}
