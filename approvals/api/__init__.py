"""What may happen, over the API."""

from __future__ import annotations

from approvals.api.approvals import router as approvals_router
from approvals.api.policies import router as policies_router

routers = (policies_router, approvals_router)
