"""Tasks: load, call a service, nothing else."""

from __future__ import annotations

from celery import shared_task

from approvals.models import Simulation
from approvals.services import requests, simulations


@shared_task(name="approvals.requests_expire")
def requests_expire() -> None:
    """End the open requests whose time is up."""
    requests.requests_expire()


@shared_task(name="approvals.simulation_run")
def simulation_run(simulation: str) -> None:
    """Replay a queued simulation."""
    rows = Simulation.objects.select_related("policy")
    simulations.simulation_run(simulation=rows.by_ref(simulation))


@shared_task(name="approvals.simulations_ring")
def simulations_ring() -> None:
    """Ring the simulations that wait or have lost their worker."""
    simulations.simulations_ring()
