"""What may happen, over the API."""

from __future__ import annotations

from approvals.api.approvals import router as approvals_router
from approvals.api.editing import router as editing_router
from approvals.api.history import router as history_router
from approvals.api.policies import router as policies_router

# `/policies/check` and `/policies/vocabulary` have to be asked before `/policies/{ref}`.
routers = (editing_router, policies_router, history_router, approvals_router)
