"""Waiting for a run's sandbox, without holding a thread."""

from __future__ import annotations

from django.db import transaction

from omniweb.core.waiting import wait_until
from sandboxes.models import Run, SandboxState
from sandboxes.providers.registry import provider_spec
from sandboxes.services.sandboxes import sandbox_current, sandbox_intend
from sandboxes.services.sleep import sandbox_wake_want


async def sandbox_wait(run: Run, seconds: float) -> None:
    """Wait until a run is cleared and has a sandbox that is ready, or is over, or time is up.

    A run whose sandbox was lost gets a new one.
    """
    await wait_until(("run", run.pk), lambda: _is_ready(run), bool, seconds)


def _is_ready(run: Run) -> bool:
    now = Run.objects.get(pk=run.pk)
    if now.is_over:
        return True
    if now.cleared_at is None:
        return False
    sandbox = sandbox_current(now)
    if sandbox is None and provider_spec(now.provider).supports_execution:
        with transaction.atomic():
            sandbox_intend(run=now)
    if sandbox is not None and sandbox.state == SandboxState.ASLEEP:
        sandbox_wake_want(sandbox=sandbox)
    return sandbox is not None and sandbox.state == SandboxState.READY
