"""Tasks: load, call a service, nothing else."""

from __future__ import annotations

from celery import shared_task

from approvals.services import requests


@shared_task(name="approvals.requests_expire")
def requests_expire() -> None:
    """End the open requests whose time is up."""
    requests.requests_expire()
