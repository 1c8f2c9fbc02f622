"""Files into a run's sandbox and out of it, each asked of the policy and told to the record."""

from __future__ import annotations

import posixpath

from django.db import transaction

from approvals.policy.decision import AuthorityRequest, Target
from approvals.services.decisions import authority_decide
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.canonical import digest_bytes
from omniweb.core.errors import Conflict, InvalidInput, PolicyDenied, SandboxLost, TooLarge
from sandboxes.live import live_sandbox
from sandboxes.manifest import sandbox_path
from sandboxes.models import Run, Sandbox, SandboxState
from sandboxes.providers.limits import MAX_FILE_BYTES, MAX_PATH_BYTES
from sandboxes.secrecy import redactor_for
from sandboxes.services.runs import asking_for, decision_facts, run_touch
from sandboxes.services.sandboxes import sandbox_current, sandbox_lost
from trajectories.services import step_append
from trajectories.steps import StepKind

CAPABILITIES = {
    StepKind.FILE_WRITTEN: ("workspace.files.write", "medium"),
    StepKind.FILE_READ: ("workspace.files.read", "low"),
}


def file_write(*, actor: Actor, run: Run, path: str, data: bytes) -> None:
    """Write a file of the acting agent's run, with the directories it is in.

    `path` is absolute or relative to the working directory. Raises InvalidInput (outside of it,
    or a directory), TooLarge, PolicyDenied, Conflict (the sandbox is not ready, the run is over)
    and what providers raise.
    """
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(f"{len(data)} bytes are more than the {MAX_FILE_BYTES} a file may have")
    inner = _inner_path(run, path)
    sandbox = _ready_sandbox(actor, run)
    _authorise(run, StepKind.FILE_WRITTEN, inner, len(data))
    try:
        live_sandbox(sandbox).write_file(_outer_path(run, inner), data)
    except SandboxLost as error:
        sandbox_lost(sandbox=sandbox, reason=error.detail)
        raise
    _tell(run, StepKind.FILE_WRITTEN, inner, data)


def file_read(*, actor: Actor, run: Run, path: str) -> bytes:
    """Return a file of the acting agent's run; raises as file_write does, and NotFound."""
    inner = _inner_path(run, path)
    sandbox = _ready_sandbox(actor, run)
    _authorise(run, StepKind.FILE_READ, inner, None)
    try:
        data = live_sandbox(sandbox).read_file(_outer_path(run, inner))
    except SandboxLost as error:
        sandbox_lost(sandbox=sandbox, reason=error.detail)
        raise
    _tell(run, StepKind.FILE_READ, inner, data)
    return data


def _inner_path(run: Run, path: str) -> str:
    home = str(run.manifest["working_dir"])
    if not path or "\0" in path or len(path.encode("utf-8", "replace")) > MAX_PATH_BYTES:
        raise InvalidInput("A path has 1 to 4096 bytes and no null byte")
    try:
        absolute = sandbox_path(posixpath.join(home, path).replace("%", "%25"))
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    inner = posixpath.relpath(absolute, home)
    if inner == "." or inner.split("/")[0] == "..":
        raise InvalidInput(f"Path {path} is outside the sandbox working directory")
    return inner


def _outer_path(run: Run, inner: str) -> str:
    return posixpath.join(run.manifest["working_dir"], inner)


def _ready_sandbox(actor: Actor, run: Run) -> Sandbox:
    actor.require(Action.RUN)
    if run.is_over:
        raise Conflict(run.reason or f"The run is {run.state}; open a new one")
    if run.cleared_at is None:
        raise Conflict("The run still waits for the approval of its sandbox")
    sandbox = sandbox_current(run)
    if sandbox is None or sandbox.state != SandboxState.READY:
        raise Conflict("The sandbox is not ready yet")
    sandbox.run = run
    return sandbox


def _authorise(run: Run, kind: StepKind, inner: str, size: int | None) -> None:
    capability, risk = CAPABILITIES[kind]
    request = AuthorityRequest(
        capability=capability,
        actor=f"agent {run.agent.name}",
        target=Target(path=inner),
        provider=run.provider,
        execution_surface="workspace",
        risk_level=risk,
        metadata={} if size is None else {"size": size},
    )
    run_touch(run=run)
    with transaction.atomic():
        decision = authority_decide(asking=asking_for(run, run.id), requests=[request])[0]
    if decision.effect == "deny":
        raise PolicyDenied(decision.reason, decision=decision_facts(decision))
    if decision.effect == "ask":
        raise PolicyDenied(
            f"{decision.reason} The policy wants a person to decide, and files cannot wait for "
            "one yet: have the policy allow it, or move the file with a command.",
            decision=decision_facts(decision),
        )


def _tell(run: Run, kind: StepKind, inner: str, data: bytes) -> None:
    with transaction.atomic():
        step_append(
            trajectory=run.trajectory,
            kind=kind,
            actor=f"agent {run.agent.name}",
            payload={"path": inner, "size": len(data), "digest": digest_bytes(data)},
            clean=redactor_for(run),
        )
