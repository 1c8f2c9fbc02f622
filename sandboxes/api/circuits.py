"""Providers that do not answer, over the API."""

from __future__ import annotations

from datetime import datetime

from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Listing, PageQuery, listing
from sandboxes.models import Circuit, CircuitState
from sandboxes.selectors import circuits_visible
from sandboxes.services.circuits import circuit_close

router = Operations(tags=["Environments and sandboxes"])


class CircuitOut(Schema):
    """The line to one account at a provider, which has failed at least once."""

    id: str
    provider: str
    state: CircuitState = Field(
        description="`open`: nobody calls until `retry_at`; `trying`: one does, to see"
    )
    failures: int = Field(description="In a row; 0 once it has answered again")
    failing_since: datetime | None
    retry_at: datetime | None
    reason: str

    @classmethod
    def of(cls, row: Circuit) -> CircuitOut:
        """Show a circuit."""
        return cls(
            id=row.ref,
            provider=row.provider,
            state=CircuitState(row.state),
            failures=row.failures,
            failing_since=row.failing_since,
            retry_at=row.retry_at,
            reason=row.reason,
        )


@router.operation("GET", "/circuits", Listing[CircuitOut], people=Action.VIEW)
def circuits_list_view(request: Request, page: Query[PageQuery]) -> Listing[CircuitOut]:
    """List the accounts at providers that have ever failed to answer."""
    rows = circuits_visible(request.actor).order_by("-id")
    return listing(paginate(rows, page.cursor, page.limit), CircuitOut.of)


@router.operation("POST", "/circuits/{ref}/close", CircuitOut, people=Action.CONFIGURE)
def circuit_close_view(request: Request, ref: str) -> CircuitOut:
    """Have a provider tried again now by whatever waits for it."""
    row = circuits_visible(request.actor).by_ref(ref)
    circuit_close(actor=request.actor, circuit=row)
    row.refresh_from_db()
    return CircuitOut.of(row)
