"""The two APIs, composed from the rooms: `/api/v1` for everything, `/sandbox/v1` for unmodified agents."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI

from approvals.api import routers as approvals_routers
from omniweb.accounts.api import router as accounts_router
from omniweb.accounts.operations import token_digest
from omniweb.core.api_docs import DocsPage, DocumentedApi
from omniweb.core.api_errors import handlers_install
from omniweb.core.throttle import PerMinute
from sandboxes.api import routers as sandboxes_routers
from sandboxes.protocol.router import router as protocol_router
from trajectories.api import router as trajectories_router

DESCRIPTION = """
Everything the pages can do, for programs; and what agents need. Send
`Authorization: Bearer omw_…`. Ids are references such as `run_01k9…`, times ISO 8601.
Errors are problem documents (RFC 9457) whose `code` is permanent. Lists are newest first and
come in pages: pass `next` as `cursor` to go on.
"""


def _api(title: str, namespace: str, **options: Any) -> NinjaAPI:
    api = DocumentedApi(
        title=title,
        version="1",
        urls_namespace=namespace,
        throttle=[PerMinute(token_digest)],
        docs=DocsPage(),
        **options,
    )
    handlers_install(api)
    return api


api = _api("OmniWeb", "api", description=DESCRIPTION)
for router in (accounts_router, *sandboxes_routers, *approvals_routers, trajectories_router):
    api.add_router("", router)

protocol = _api("OmniWeb sandbox protocol", "sandbox", description="The HTTP sandbox protocol.")
protocol.add_router("", protocol_router)
