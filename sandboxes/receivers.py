"""What this room does when a request is decided in the one below."""

from __future__ import annotations

from typing import Any

from approvals.models import Request, RequestKind
from sandboxes.services.executions import execution_decided
from sandboxes.services.runs import run_decided


def on_request_decided(sender: type[Request], request: Request, **_: Any) -> None:
    """Let the command or the run that waited move on, in the deciding transaction."""
    if request.kind == RequestKind.EXECUTION:
        execution_decided(request=request)
    else:
        run_decided(request=request)
