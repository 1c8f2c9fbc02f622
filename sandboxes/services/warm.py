"""Keeping sandboxes ready before anybody asks for one.

Nothing of an agent is in them: a run takes one once all that its manifest asks for is allowed, and
only one that was made of exactly that manifest. `warm_fill` brings a pool in line with what is
wanted of it; it calls no provider and may run at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.canonical import digest
from omniweb.core.clock import now
from omniweb.core.database import insist
from omniweb.core.errors import InvalidInput, OmniWebError, Problem, ProviderError, SandboxLost
from omniweb.core.installation import installation_id
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.live import provider_of
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Run, Sandbox, WarmSandbox, WarmState
from sandboxes.providers.base import LiveSandbox, Owner
from sandboxes.providers.registry import provider_spec
from sandboxes.secrecy import redactor_for
from sandboxes.services.capacity import (
    capacity_freed,
    capacity_held,
    capacity_line,
    capacity_spare,
)
from sandboxes.services.circuits import circuit_of, circuit_watched

MOST_WARM = 100
WARM_LEASE = timedelta(minutes=10)
# A pool whose last sandbox could not be made rests; each may cost money.
REST = timedelta(minutes=5)


def warm_set(*, actor: Actor, environment: Environment, warm_sandboxes: int) -> None:
    """Say how many sandboxes an environment keeps ready; raises InvalidInput."""
    actor.require(Action.CONFIGURE)
    problem = ""
    if not 0 <= warm_sandboxes <= MOST_WARM:
        problem = f"must be 0 to {MOST_WARM}"
    elif warm_sandboxes and _why_not(environment):
        problem = _why_not(environment)
    if problem:
        raise InvalidInput(problems=[Problem(path="warm_sandboxes", message=problem)])
    with capacity_held(environment) as kept:
        kept.warm_sandboxes = environment.warm_sandboxes = warm_sandboxes
        kept.save(update_fields=["warm_sandboxes"])
        audit_write(
            actor=actor, act="environment.warm", subject=environment, warm_sandboxes=warm_sandboxes
        )
        enqueue("sandboxes.warm_fill", environment=environment.ref)


def _why_not(environment: Environment) -> str:
    """Return why none of an environment may be made before a run is allowed; empty if any may."""
    if not provider_spec(environment.provider).supports_execution:
        return "must be 0: this provider runs no commands"
    if Manifest.parse(environment.manifest).environment.secret_refs:
        return "must be 0: its secrets would be in a sandbox before anybody was asked"
    return ""


def warm_live(environment: Environment) -> int:
    """Return how many sandboxes an environment has ready now."""
    return environment.warm.filter(state=WarmState.READY).count()


def warm_fill(*, environment: Environment) -> None:
    """Bring a pool in line: end what is no longer wanted, and want what is missing."""
    with capacity_held(environment) as kept:
        wanted = kept.warm_sandboxes if kept.is_enabled and not _why_not(kept) else 0
        line = capacity_line(kept)
        good: list[WarmSandbox] = []
        for warm in kept.warm.filter(state__in=["intended", "provisioning", "ready"]):
            if _is_good(warm, kept) and len(good) < wanted:
                good.append(warm)
            else:
                _retire(warm)
        spare = capacity_spare(kept)
        if spare is not None and spare < len(line):
            # A run that needs another kind of sandbox waits for the room of one of these.
            for warm in good[: max(0, _others_in(line, _digest_of(kept)) - spare)]:
                _retire(warm)
            return
        missing = wanted - len(good)
        if missing > 0 and not _is_resting(kept):
            room = missing if spare is None else min(missing, spare - len(line))
            for _ in range(room):
                _want(kept)


def _is_good(warm: WarmSandbox, environment: Environment) -> bool:
    is_fresh = warm.stale_at is None or warm.stale_at > now()
    return is_fresh and warm.digest == _digest_of(environment)


def _digest_of(environment: Environment) -> str:
    manifest = Manifest.parse(environment.manifest)
    return _digest(environment.provider, environment.options, manifest.digest())


def _digest(provider: str, options: dict[str, Any], manifest_digest: str) -> str:
    return digest({"provider": provider, "options": options, "manifest": manifest_digest})


def _others_in(line: Sequence[UUID], pool: str) -> int:
    """Return how many of those that wait for room can take none of a pool."""
    runs = Run.objects.filter(sandboxes__in=line)
    return sum(1 for run in runs if _digest(run.provider, run.options, run.manifest_digest) != pool)


def _is_resting(environment: Environment) -> bool:
    failed = environment.warm.filter(state=WarmState.FAILED, digest=_digest_of(environment))
    return failed.filter(ended_at__gt=now() - REST).exists()


def _want(environment: Environment) -> None:
    warm = WarmSandbox.objects.create(
        team_id=environment.team_id,
        environment=environment,
        provider=environment.provider,
        options=environment.options,
        manifest=Manifest.parse(environment.manifest).to_dict(),
        digest=_digest_of(environment),
    )
    enqueue("sandboxes.warm_provision", warm=warm.ref)


def _retire(warm: WarmSandbox) -> None:
    """End one; of one that is being made the next look will see to it."""
    if transition(warm, WarmState.TERMINATED, source=["intended"], ended_at=now()):
        return
    if transition(warm, WarmState.TERMINATING, source=["ready"]):
        enqueue("sandboxes.warm_terminate", warm=warm.ref)
        publish("sandboxes", warm.team_id)


def _as_run(warm: WarmSandbox) -> Run:
    """Return the run it is made for, which nobody has opened yet."""
    return Run(
        team_id=warm.team_id,
        environment_id=warm.environment_id,
        provider=warm.provider,
        options=warm.options,
        manifest=warm.manifest,
    )


def _live(warm: WarmSandbox) -> LiveSandbox:
    return provider_of(_as_run(warm)).attach(warm.handle, Manifest.parse(warm.manifest))


def warm_provision(*, warm: WarmSandbox) -> None:
    """Have the provider create one; only one worker ever gets to try."""
    run = _as_run(warm)
    circuit = circuit_of(run)
    # A pool does not try a broken provider: that is for those who need it.
    if (circuit and circuit.is_open) or not _claim(warm):
        return
    try:
        provider = provider_of(run)
        owner = Owner(install=installation_id(), run=warm.ref, sandbox=warm.ref)
        with circuit_watched(run=run):
            live = provider.create(Manifest.parse(warm.manifest), owner=owner)
    except OmniWebError as error:
        reason = redactor_for(run).text(error.detail)
        insist(lambda: _over(warm, WarmState.FAILED, reason))
        return
    except Exception as error:
        _over(warm, WarmState.FAILED, f"{type(error).__name__} while it was made")
        raise
    insist(lambda: _made(warm, live))


def _claim(warm: WarmSandbox) -> bool:
    with capacity_held(warm.environment) as environment:
        spare = capacity_spare(environment)
        if spare is not None and spare <= len(capacity_line(environment)):
            return False
        lease = now() + WARM_LEASE
        return transition(warm, WarmState.PROVISIONING, source=["intended"], lease_until=lease)


def _made(warm: WarmSandbox, live: LiveSandbox) -> None:
    moment = now()
    transition(
        warm,
        WarmState.READY,
        source=["provisioning"],
        handle=dict(live.handle),
        isolation=live.isolation.to_dict() if live.isolation else {},
        ready_at=moment,
        stale_at=_stale_at(warm, moment),
    )
    publish("sandboxes", warm.team_id)


def _lifetime(warm: WarmSandbox) -> int | None:
    """Return the seconds its provider lets it live; None where there is no such limit."""
    own = Manifest.parse(warm.manifest).resources.timeout_seconds
    if own is not None:
        return own
    found: int | None = provider_of(_as_run(warm)).options.get("timeout_seconds")
    return found


def _stale_at(warm: WarmSandbox, moment: datetime) -> datetime | None:
    """Return when it has used up half of its life: a run gets at least the other half."""
    lifetime = _lifetime(warm)
    return moment + timedelta(seconds=lifetime / 2) if lifetime else None


def warm_find(run: Run) -> WarmSandbox | None:
    """Return one that is exactly what a run asks for and takes commands; None if there is none."""
    wanted = _digest(run.provider, run.options, run.manifest_digest)
    ready = WarmSandbox.objects.filter(
        environment=run.environment_id, state=WarmState.READY, digest=wanted
    ).exclude(stale_at__lte=now())
    for warm in ready.order_by("id"):
        try:
            with circuit_watched(run=run):
                live = _live(warm)
                is_running = live.is_running()
        except SandboxLost:
            is_running = False
        except ProviderError:
            return None
        if is_running:
            if lifetime := _lifetime(warm):
                with suppress(OmniWebError):
                    live.extend(lifetime)
            return warm
        _over(warm, WarmState.LOST, "The provider no longer has it")
    return None


def warm_taken(*, warm: WarmSandbox, sandbox: Sandbox) -> bool:
    """Give one away to a run, for good; only one run ever gets it."""
    with transaction.atomic():
        if not transition(warm, WarmState.TAKEN, source=["ready"], sandbox=sandbox, ended_at=now()):
            return False
        enqueue("sandboxes.warm_fill", environment=warm.environment.ref)
    return True


def warm_lost(*, warm: WarmSandbox, reason: str) -> None:
    """Note that its maker is gone, or it is; the next look wants another."""
    _over(warm, WarmState.LOST, reason)


def warm_terminate(*, warm: WarmSandbox) -> None:
    """End one that is to go; a provider that does not answer is asked again."""
    if warm.state != WarmState.TERMINATING:
        return
    with suppress(ProviderError):
        _live(warm).terminate()
        _over(warm, WarmState.TERMINATED, "")


def _over(warm: WarmSandbox, state: WarmState, reason: str) -> None:
    with transaction.atomic():
        if transition(warm, state, reason=reason, ended_at=now()):
            capacity_freed(environment=warm.environment)
            publish("sandboxes", warm.team_id)


def warm_sweep(*, workers_are_gone: bool, before: datetime) -> None:
    """Tell what was lost, ring what was missed, and bring every pool in line."""
    making = WarmSandbox.objects.filter(state=WarmState.PROVISIONING).select_related("environment")
    if not workers_are_gone:
        making = making.filter(lease_until__lt=now())
    for warm in making:
        warm_lost(warm=warm, reason="The worker that made it was lost")
    rows = WarmSandbox.objects.exclude(created_at__gt=before, created_at__lte=now())
    for warm in rows.filter(state=WarmState.INTENDED):
        enqueue("sandboxes.warm_provision", warm=warm.ref)
    for warm in WarmSandbox.objects.filter(state=WarmState.TERMINATING):
        enqueue("sandboxes.warm_terminate", warm=warm.ref)
    pools = Environment.objects.filter(warm_sandboxes__gt=0)
    left = Environment.objects.filter(warm__state__in=["intended", "ready"])
    for environment in pools.union(left):
        warm_fill(environment=environment)
