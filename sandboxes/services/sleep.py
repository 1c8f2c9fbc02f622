"""Pausing sandboxes and waking them: a person or a command says so, a worker calls the provider.

`asleep` is written before the provider is asked, so that no command starts meanwhile, and `ready`
after it has woken. One worker at a time calls it about a sandbox: what is left over from another
could undo what the row says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db.models import Q

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.database import insist
from omniweb.core.errors import Conflict, ProviderError, SandboxLost, SandboxUnsupported
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.capabilities import Ability
from sandboxes.live import live_sandbox
from sandboxes.models import Sandbox, SandboxState
from sandboxes.providers.registry import provider_spec
from sandboxes.services.circuits import circuit_of, circuit_try, circuit_watched
from sandboxes.services.sandboxes import sandbox_lost, sandbox_ring, sandbox_tell
from trajectories.services import trajectory_held

CALL_LEASE = timedelta(minutes=2)
BUSY = ("starting", "running")


def sandbox_pause(*, actor: Actor, sandbox: Sandbox) -> bool:
    """Have a sandbox paused that nothing runs in; the next command wakes it.

    False when it is not ready. Raises Conflict while a command runs in it, SandboxUnsupported where
    its provider cannot.
    """
    actor.require(Action.RUN_END)
    spec = provider_spec(sandbox.provider)
    if Ability.PAUSE not in spec.can:
        raise SandboxUnsupported(f"{spec.label} cannot pause a sandbox; end it instead")
    with trajectory_held(sandbox.run.trajectory_id):
        if sandbox.executions.filter(state__in=BUSY).exists():
            raise Conflict("A command runs in it; wait until it has ended, or end the sandbox")
        reason = f"Paused by {actor.label}"
        if not transition(sandbox, SandboxState.ASLEEP, source=["ready"], lease_until=None):
            return False
        audit_write(actor=actor, act="sandbox.pause", subject=sandbox, run=sandbox.run.ref)
        sandbox_tell(sandbox, reason)
        enqueue("sandboxes.sandbox_freeze", sandbox=sandbox.ref)
    return True


def sandbox_wake(*, actor: Actor, sandbox: Sandbox) -> bool:
    """Have a paused sandbox woken; False when it is not asleep."""
    actor.require(Action.RUN_END)
    with trajectory_held(sandbox.run.trajectory_id):
        if not sandbox_wake_want(sandbox=sandbox):
            return False
        audit_write(actor=actor, act="sandbox.wake", subject=sandbox, run=sandbox.run.ref)
    return True


def sandbox_wake_want(*, sandbox: Sandbox) -> bool:
    """Want a sandbox awake because something is to be done in it; False when it is not asleep."""
    asleep = Sandbox.objects.filter(pk=sandbox.pk, state=SandboxState.ASLEEP)
    if not asleep.exists():
        return False
    asleep.filter(wake_wanted_at=None).update(wake_wanted_at=now())
    enqueue("sandboxes.sandbox_thaw", sandbox=sandbox.ref)
    return True


def sandbox_freeze(*, sandbox: Sandbox) -> None:
    """Have the provider pause a sandbox that is to sleep; a worker does."""
    with _mine(sandbox, paused_at=None, wake_wanted_at=None) as is_mine:
        if not is_mine or not _called(sandbox, lambda: live_sandbox(sandbox).pause()):
            return
        asleep = Sandbox.objects.filter(pk=sandbox.pk, state=SandboxState.ASLEEP)
        insist(lambda: asleep.update(paused_at=now()))
    # Whoever wanted it awake meanwhile has been kept out.
    if Sandbox.objects.filter(pk=sandbox.pk, wake_wanted_at__isnull=False).exists():
        enqueue("sandboxes.sandbox_thaw", sandbox=sandbox.ref)


def sandbox_thaw(*, sandbox: Sandbox) -> None:
    """Have the provider wake a sandbox that is wanted awake, and ring what waits for it."""
    circuit = circuit_of(sandbox.run)
    if circuit and not circuit_try(circuit=circuit):
        return
    with _mine(sandbox, wake_wanted_at__isnull=False) as is_mine:
        if is_mine and _called(sandbox, lambda: live_sandbox(sandbox).resume()):
            insist(lambda: _awake(sandbox))


def _awake(sandbox: Sandbox) -> None:
    with trajectory_held(sandbox.run.trajectory_id):
        slept = Sandbox.objects.get(pk=sandbox.pk)
        pause = [[slept.paused_at.isoformat(), now().isoformat()]] if slept.paused_at else []
        if transition(
            sandbox,
            SandboxState.READY,
            source=["asleep"],
            lease_until=None,
            paused_at=None,
            wake_wanted_at=None,
            pauses=[*slept.pauses, *pause],
        ):
            sandbox_tell(sandbox, "")
            sandbox_ring(sandbox.run)


@contextmanager
def _mine(sandbox: Sandbox, **still: object) -> Iterator[bool]:
    """Yield whether this worker alone may call the provider about a sleeping sandbox."""
    free = Q(lease_until=None) | Q(lease_until__lt=now())
    mine = Sandbox.objects.filter(pk=sandbox.pk, state=SandboxState.ASLEEP)
    taken = bool(mine.filter(free, **still).update(lease_until=now() + CALL_LEASE))
    try:
        yield taken
    finally:
        if taken:
            insist(lambda: mine.update(lease_until=None))


def _called(sandbox: Sandbox, call: Callable[[], None]) -> bool:
    """Say whether the provider did it; one that does not answer is asked again by the sweep."""
    try:
        with circuit_watched(run=sandbox.run):
            call()
    except SandboxLost as error:
        lost = error.detail
        insist(lambda: sandbox_lost(sandbox=sandbox, reason=lost))
        return False
    except ProviderError as error:
        Sandbox.objects.filter(pk=sandbox.pk).update(reason=error.detail)
        publish("sandboxes", sandbox.team_id)
        return False
    return True


def sleepers_ring() -> None:
    """Ring workers for sandboxes that are to be paused or woken and are not yet."""
    asleep = Sandbox.objects.filter(state=SandboxState.ASLEEP)
    for sandbox in asleep.filter(wake_wanted_at__isnull=False):
        enqueue("sandboxes.sandbox_thaw", sandbox=sandbox.ref)
    for sandbox in asleep.filter(paused_at=None, wake_wanted_at=None):
        enqueue("sandboxes.sandbox_freeze", sandbox=sandbox.ref)
