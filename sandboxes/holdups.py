"""What keeps the sandbox of a run from being made, in words for whoever waits for it."""

from __future__ import annotations

from omniweb.core.clock import now
from sandboxes.models import Run, SandboxState
from sandboxes.services.circuits import circuit_of, circuit_words
from sandboxes.services.sandboxes import sandbox_current


def holdup_of(run: Run) -> str:
    """Return why a run's commands do not run yet though they may; empty when nothing is in the way."""
    if run.is_over or run.cleared_at is None:
        return ""
    circuit = circuit_of(run)
    if circuit is not None and circuit.failures:
        sandbox = sandbox_current(run)
        if circuit.is_open or (sandbox and sandbox.state == SandboxState.INTENDED):
            return circuit_words(circuit, now())
    return ""
