"""What keeps the sandbox of a run from being made, in words for whoever waits for it."""

from __future__ import annotations

from omniweb.core.clock import now
from sandboxes.models import Run, SandboxState
from sandboxes.services.capacity import capacity_words
from sandboxes.services.circuits import circuit_of, circuit_words
from sandboxes.services.sandboxes import sandbox_current


def holdup_of(run: Run) -> str:
    """Return why a run's commands do not run yet though they may; empty when nothing is in the way."""
    if run.is_over or run.cleared_at is None:
        return ""
    sandbox = sandbox_current(run)
    if sandbox is not None and sandbox.state == SandboxState.ASLEEP and sandbox.wake_wanted_at:
        return "The sandbox of this run was paused and is being woken."
    is_intended = sandbox is not None and sandbox.state == SandboxState.INTENDED
    circuit = circuit_of(run)
    if circuit is not None and circuit.failures and (circuit.is_open or is_intended):
        return circuit_words(circuit, now())
    return capacity_words(sandbox) if sandbox and is_intended else ""
