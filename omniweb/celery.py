"""The Celery application and what runs by the clock.

Services enqueue by task name (`core/jobs.py`), so nothing but this module and
the rooms' `tasks.py` knows that there is a Celery.
"""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import task_postrun, task_prerun
from django.db import close_old_connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "omniweb.settings")

app = Celery("omniweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["approvals", "sandboxes", "trajectories", "omniweb.web"])

# As Django does before and after a request: closes what is too old or broken.
for signal in (task_prerun, task_postrun):
    signal.connect(close_old_connections, dispatch_uid="omniweb")


def beat_schedule(reconcile_seconds: float) -> dict[str, dict[str, object]]:
    """Return the periodic jobs; everything else is rung by the act that makes it necessary."""
    return {
        "reconcile": {"task": "sandboxes.reconcile", "schedule": reconcile_seconds},
        "compare sandboxes": {"task": "sandboxes.sandboxes_compare", "schedule": 60.0},
        "expire requests": {"task": "approvals.requests_expire", "schedule": reconcile_seconds},
        "ring simulations": {"task": "approvals.simulations_ring", "schedule": reconcile_seconds},
    }


@app.on_after_configure.connect
def _schedule(sender: Celery, **_: object) -> None:
    from django.conf import settings  # settings are only ready once the app is configured

    sender.conf.beat_schedule = beat_schedule(settings.RECONCILE_SECONDS)
