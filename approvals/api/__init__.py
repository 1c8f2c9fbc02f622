"""What may happen, over the API."""

from __future__ import annotations

from approvals.api.approvals import router as approvals_router
from approvals.api.editing import router as editing_router
from approvals.api.history import router as history_router
from approvals.api.policies import router as policies_router
from approvals.api.shadows import router as shadows_router

# `/policies/check` and `/policies/vocabulary` have to be asked before `/policies/{ref}`.
routers = (editing_router, policies_router, history_router, shadows_router, approvals_router)
