"""Making rows and world agree: what was lost is told, what was missed is rung again.

Every part may run at any time, in any process, any number of times. Nothing here calls a
provider but `sandboxes_compare`: a start must not wait for one that hangs.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from omniweb.accounts.permissions import system
from omniweb.core.canonical import canonical_json
from omniweb.core.clock import now
from omniweb.core.each import for_each
from omniweb.core.errors import OmniWebError, SandboxLost
from omniweb.core.ids import first_key, parse_ref
from omniweb.core.installation import installation_id
from omniweb.core.jobs import enqueue
from omniweb.core.transitions import transition
from sandboxes.capabilities import Ability
from sandboxes.executor import execution_drop, execution_tell_end
from sandboxes.live import live_sandbox
from sandboxes.manifest import Manifest
from sandboxes.models import (
    Environment,
    EnvironmentTest,
    EnvironmentTestState,
    Execution,
    ExecutionState,
    Run,
    RunState,
    Sandbox,
    SandboxState,
    WarmSandbox,
    WarmState,
)
from sandboxes.models.environment_test import OVER
from sandboxes.models.sandbox import GONE
from sandboxes.output import output_rescue
from sandboxes.providers.base import Owned, SandboxProvider
from sandboxes.providers.registry import open_provider, provider_spec
from sandboxes.services.capacity import capacity_fill
from sandboxes.services.environment_tests import TEST_LEASE, environment_test_lost
from sandboxes.services.runs import run_end
from sandboxes.services.sandboxes import PROVISION_LEASE, sandbox_lost
from sandboxes.services.sleep import sleepers_ring
from sandboxes.services.warm import warm_sweep
from trajectories.services import trajectory_held

logger = logging.getLogger(__name__)

# A row younger than this has just been rung; its doorbell is still on the way.
GRACE = timedelta(seconds=5)
# What `manage.py doctor` makes carries references of this kind, and is wanted for so long.
DOCTOR = "doc"
DOCTOR_TAKES = timedelta(hours=1)


def reconcile(*, workers_are_gone: bool = False) -> None:
    """Bring everything in line; `workers_are_gone` at the start of the only process there is."""
    lapsed = Q() if workers_are_gone else Q(lease_until__lt=now())
    grace = timedelta(0) if workers_are_gone else GRACE
    if workers_are_gone:
        _waiters_are_gone()
    _leases_clip()
    _executions_lost(lapsed)
    _sandboxes_lost(lapsed)
    _tests_lost(lapsed)
    _ring(now() - grace)
    warm_sweep(workers_are_gone=workers_are_gone, before=now() - grace)
    _runs_idle()


def _waiters_are_gone() -> None:
    Execution.objects.filter(delivered_at__isnull=True, waiter_until__gt=now()).update(
        waiter_until=now() - timedelta(seconds=1)
    )


def _leases_clip() -> None:
    """Shorten leases that no worker could have taken by this clock: it has been set back.

    A worker that is there renews its own; one that is lost would hold what it has for too long.
    """
    for rows, longest in (
        (
            Execution.objects.filter(state__in=["starting", "running"]),
            timedelta(seconds=settings.LEASE_SECONDS),
        ),
        (Sandbox.objects.filter(state=SandboxState.PROVISIONING), PROVISION_LEASE),
        (EnvironmentTest.objects.filter(state=EnvironmentTestState.RUNNING), TEST_LEASE),
    ):
        latest = now() + longest
        rows.filter(lease_until__gt=latest).update(lease_until=latest)


def _executions_lost(lapsed: Q) -> None:
    claimed = Execution.objects.filter(lapsed).select_related(
        "run__trajectory", "run__team", "sandbox__run__trajectory"
    )
    for_each(claimed.filter(state=ExecutionState.STARTING), _execution_give_back)
    for_each(claimed.filter(state=ExecutionState.RUNNING), _execution_unknown)


def _execution_give_back(execution: Execution) -> None:
    """Let another worker have a command that was never handed to the provider, if it is wanted."""
    with trajectory_held(execution.run.trajectory_id):
        if not transition(
            execution,
            ExecutionState.QUEUED,
            source=["starting"],
            where={"claim": execution.claim, "cancel_requested_at__isnull": True},
            claim=None,
        ):
            execution_drop(execution)


def _execution_unknown(execution: Execution) -> None:
    with trajectory_held(execution.run.trajectory_id):
        kept = output_rescue(execution)
        if not transition(
            execution,
            ExecutionState.UNKNOWN,
            where={"claim": execution.claim},
            reason="The worker was lost; the command may have run in part or to its end",
            ended_at=now(),
            stdout=kept.stdout,
            stderr=kept.stderr,
            stdout_bytes=kept.stdout_size,
            stderr_bytes=kept.stderr_size,
        ):
            return
        execution_tell_end(execution)
        if execution.sandbox:
            # The command may still be running in there, with nobody to record it.
            reason = "A command in it lost its worker"
            transition(execution.sandbox, SandboxState.TERMINATING, source=["ready"], reason=reason)


def _sandboxes_lost(lapsed: Q) -> None:
    making = Sandbox.objects.filter(lapsed, state=SandboxState.PROVISIONING)
    for_each(
        making.select_related("run__trajectory", "run__team"),
        lambda one: sandbox_lost(sandbox=one, reason="The worker that made it was lost"),
    )


def _tests_lost(lapsed: Q) -> None:
    running = EnvironmentTest.objects.filter(lapsed, state=EnvironmentTestState.RUNNING)
    for_each(running, lambda one: environment_test_lost(test=one))


def _ring(before: Any) -> None:
    # What is from the future was rung before the clock was set back.
    queued = Execution.objects.filter(state=ExecutionState.QUEUED, run__cleared_at__isnull=False)
    queued = queued.exclude(queued_at__gt=before, queued_at__lte=now())
    for execution in queued.order_by("id")[:1000]:
        enqueue("sandboxes.execution_run", execution=execution.ref)
    intended = Sandbox.objects.filter(state=SandboxState.INTENDED).exclude(not_before__gt=now())
    limited = Environment.objects.filter(max_sandboxes__isnull=False)
    for environment in limited.filter(runs__sandboxes__in=intended).distinct():
        capacity_fill(environment=environment)
    intended = intended.filter(run__environment__max_sandboxes__isnull=True)
    for sandbox in intended.exclude(created_at__gt=before, created_at__lte=now()):
        enqueue("sandboxes.sandbox_provision", sandbox=sandbox.ref)
    queued_tests = EnvironmentTest.objects.filter(state=EnvironmentTestState.QUEUED)
    for test in queued_tests.exclude(created_at__gt=before, created_at__lte=now()):
        enqueue("sandboxes.environment_test_run", test=test.ref)
    stopped = [EnvironmentTestState.LOST, EnvironmentTestState.CANCELLED]
    for test in EnvironmentTest.objects.filter(state__in=stopped).exclude(handles=[]):
        enqueue("sandboxes.environment_test_sweep", test=test.ref)
    for run in Run.objects.filter(state=RunState.FINISHING):
        enqueue("sandboxes.run_finish", run=run.ref)
    sleepers_ring()
    for sandbox in Sandbox.objects.filter(state=SandboxState.TERMINATING):
        enqueue("sandboxes.sandbox_terminate", sandbox=sandbox.ref)


def _runs_idle() -> None:
    since = now() - timedelta(seconds=settings.RUN_IDLE_SECONDS)
    idle = Run.objects.filter(state=RunState.ACTIVE, last_seen_at__lt=since).exclude(
        executions__state__in=["asked", "waiting", "queued", "starting", "running"]
    )
    for_each(idle.select_related("team", "trajectory", "agent"), _run_abandon)


def _run_abandon(run: Run) -> None:
    run_end(
        actor=system(run.team),
        run=run,
        outcome=RunState.ABANDONED,
        reason="The agent has not been heard of for too long",
    )


def sandboxes_compare() -> None:
    """Compare each provider's list with the rows: end orphans, note what is gone."""
    for provider, name, options in _providers_listing():
        try:
            owned = provider.list_owned(installation_id())
        except OmniWebError as error:
            logger.info("%s cannot be asked for its sandboxes: %s", name, error.detail)
            continue
        for item in owned:
            _end_if_orphan(provider, item)
        _note_missing(name, options, _present(owned))


def _providers_listing() -> list[tuple[SandboxProvider, str, bytes]]:
    """Return each provider in use that can list, once per distinct set of options."""
    seen: dict[tuple[str, bytes], tuple[SandboxProvider, str, bytes]] = {}
    places = list(Environment.objects.values_list("provider", "options"))
    places += list(
        Run.objects.filter(sandboxes__state__in=["ready", "asleep", "provisioning"])
        .values_list("provider", "options")
        .distinct()
    )
    live = WarmSandbox.objects.filter(state__in=["provisioning", "ready", "terminating"])
    places += list(live.values_list("provider", "options").distinct())
    for name, options in places:
        key = (name, canonical_json(options))
        try:
            if key not in seen and Ability.LIST in provider_spec(name).can:
                seen[key] = (open_provider(name, options), *key)
        except OmniWebError as error:
            logger.info("%s cannot be opened: %s", name, error.detail)
    return list(seen.values())


def _end_if_orphan(provider: SandboxProvider, item: Owned) -> None:
    if _is_wanted(item):
        return
    try:
        provider.attach(item.handle, Manifest()).terminate()
        logger.warning("ended the orphaned sandbox %s", item.sandbox)
    except OmniWebError as error:
        logger.warning("the orphaned sandbox %s is still there: %s", item.sandbox, error.detail)


def _is_wanted(item: Owned) -> bool:
    """Say whether somebody still uses a sandbox: a run, or a test or doctor that checks its provider."""
    if checking := parse_ref(DOCTOR, item.run):
        return checking > first_key(now() - DOCTOR_TAKES)
    if testing := parse_ref(EnvironmentTest.PREFIX, item.run):
        return EnvironmentTest.objects.filter(pk=testing).exclude(state__in=OVER).exists()
    key = parse_ref(Sandbox.PREFIX, item.sandbox)
    if warming := parse_ref(WarmSandbox.PREFIX, item.sandbox):
        warm = WarmSandbox.objects.filter(pk=warming).first()
        if warm is None or warm.state != WarmState.TAKEN:
            return warm is not None and warm.state not in GONE
        # It carries the label it was made with.
        key = warm.sandbox_id
    sandbox = Sandbox.objects.filter(pk=key).first() if key else None
    return sandbox is not None and sandbox.state not in GONE


def _present(owned: list[Owned]) -> set[str]:
    """Return the references of what runs, also of what a run has taken from a pool."""
    seen = {item.sandbox for item in owned if item.running}
    keys = [key for one in seen if (key := parse_ref(WarmSandbox.PREFIX, one))]
    taken = WarmSandbox.objects.filter(pk__in=keys, sandbox__isnull=False).select_related("sandbox")
    return seen | {warm.sandbox.ref for warm in taken if warm.sandbox}


def _note_missing(name: str, options: bytes, present: set[str]) -> None:
    settled = now() - GRACE
    ready = Sandbox.objects.filter(
        provider=name, state=SandboxState.READY, ready_at__lt=settled
    ).select_related("run__trajectory")
    for sandbox in ready:
        unlisted = canonical_json(sandbox.run.options) == options and sandbox.ref not in present
        if unlisted and _is_gone(sandbox):
            sandbox_lost(sandbox=sandbox, reason="The provider no longer has it")


def _is_gone(sandbox: Sandbox) -> bool:
    """Ask for it by name: on this machine only what has processes is listed, and lists can lag."""
    try:
        return not live_sandbox(sandbox).is_running()
    except SandboxLost:
        return True
    except OmniWebError as error:
        logger.info("%s cannot be asked for: %s", sandbox.ref, error.detail)
        return False
