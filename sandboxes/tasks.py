"""Tasks: load the row, call a service, nothing else. Each is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from sandboxes import executor
from sandboxes.models import Environment, EnvironmentTest, Execution, Run, Sandbox, WarmSandbox
from sandboxes.services import capacity, environment_tests, runs, sandboxes, sleep
from sandboxes.services import reconcile as reconciling
from sandboxes.services import warm as warm_pools

WARM_ROWS = WarmSandbox.objects.select_related("environment")
RUN_ROWS = ("agent__owner", "agent__team", "trajectory", "environment", "team", "version__policy")
SANDBOX_ROWS = Sandbox.objects.select_related(*[f"run__{name}" for name in RUN_ROWS])


@shared_task(name="sandboxes.execution_run")
def execution_run(execution: str) -> None:
    """Run a queued command."""
    rows = Execution.objects.select_related("decision", *[f"run__{name}" for name in RUN_ROWS])
    executor.execution_run(execution=rows.by_ref(execution))


@shared_task(name="sandboxes.sandbox_provision")
def sandbox_provision(sandbox: str) -> None:
    """Make an intended sandbox."""
    sandboxes.sandbox_provision(sandbox=SANDBOX_ROWS.by_ref(sandbox))


@shared_task(name="sandboxes.sandbox_terminate")
def sandbox_terminate(sandbox: str) -> None:
    """End a sandbox that is to go."""
    sandboxes.sandbox_terminate(sandbox=SANDBOX_ROWS.by_ref(sandbox))


@shared_task(name="sandboxes.capacity_fill")
def capacity_fill(environment: str) -> None:
    """Ring the sandboxes there is room for in an environment."""
    capacity.capacity_fill(environment=Environment.objects.by_ref(environment))


@shared_task(name="sandboxes.warm_fill")
def warm_fill(environment: str) -> None:
    """Bring an environment's pool of ready sandboxes in line."""
    warm_pools.warm_fill(environment=Environment.objects.by_ref(environment))


@shared_task(name="sandboxes.warm_provision")
def warm_provision(warm: str) -> None:
    """Make a sandbox that is to be kept ready."""
    warm_pools.warm_provision(warm=WARM_ROWS.by_ref(warm))


@shared_task(name="sandboxes.warm_terminate")
def warm_terminate(warm: str) -> None:
    """End a sandbox that is no longer to be kept ready."""
    warm_pools.warm_terminate(warm=WARM_ROWS.by_ref(warm))


@shared_task(name="sandboxes.sandbox_freeze")
def sandbox_freeze(sandbox: str) -> None:
    """Have a sandbox paused that is to sleep."""
    sleep.sandbox_freeze(sandbox=SANDBOX_ROWS.by_ref(sandbox))


@shared_task(name="sandboxes.sandbox_thaw")
def sandbox_thaw(sandbox: str) -> None:
    """Have a sandbox woken that is wanted awake."""
    sleep.sandbox_thaw(sandbox=SANDBOX_ROWS.by_ref(sandbox))


@shared_task(name="sandboxes.run_finish")
def run_finish(run: str) -> None:
    """Close a finishing run once its commands have ended."""
    runs.run_finish(run=Run.objects.select_related(*RUN_ROWS).by_ref(run))


@shared_task(name="sandboxes.environment_test_run")
def environment_test_run(test: str) -> None:
    """Run a queued test of an environment."""
    rows = EnvironmentTest.objects.select_related("environment", "team")
    environment_tests.environment_test_run(test=rows.by_ref(test))


@shared_task(name="sandboxes.environment_test_sweep")
def environment_test_sweep(test: str) -> None:
    """End what a lost test has left."""
    environment_tests.environment_test_sweep(test=EnvironmentTest.objects.by_ref(test))


@shared_task(name="sandboxes.reconcile")
def reconcile() -> None:
    """Ring what was missed and tell what was lost."""
    reconciling.reconcile()


@shared_task(name="sandboxes.sandboxes_compare")
def sandboxes_compare() -> None:
    """End orphaned sandboxes and note those that are gone."""
    reconciling.sandboxes_compare()
