"""Where it happens, over the API."""

from __future__ import annotations

from sandboxes.api.agents import router as agents_router
from sandboxes.api.circuits import router as circuits_router
from sandboxes.api.environments import router as environments_router
from sandboxes.api.executions import router as executions_router
from sandboxes.api.prices import router as prices_router
from sandboxes.api.runs import router as runs_router
from sandboxes.api.sandboxes import router as sandboxes_router
from sandboxes.api.secrets import router as secrets_router

routers = (
    agents_router,
    environments_router,
    secrets_router,
    sandboxes_router,
    circuits_router,
    prices_router,
    runs_router,
    executions_router,
)
