"""What sandboxes cost, over the API."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Listing, PageQuery, Text, listing
from sandboxes.models import Price
from sandboxes.selectors import environments_visible, prices_visible
from sandboxes.services.prices import price_remove, price_set

router = Operations(tags=["Environments and sandboxes"])


class PriceOut(Schema):
    """What an hour of one sandbox costs from a time on."""

    id: str
    provider: str
    environment: str | None = Field(description="null: all environments of the provider")
    per_hour: str = Field(description="A decimal number")
    paused_per_hour: str
    currency: str
    starts_at: datetime

    @classmethod
    def of(cls, row: Price) -> PriceOut:
        """Show a price."""
        return cls(
            id=row.ref,
            provider=row.provider,
            environment=row.environment.ref if row.environment else None,
            per_hour=row.hourly,
            paused_per_hour=row.hourly_paused,
            currency=row.currency,
            starts_at=row.starts_at,
        )


class PriceIn(Body):
    """A price; a later one for the same takes its place."""

    provider: Text
    environment: Text = Field("", description="Reference of an environment it holds for alone")
    per_hour: Decimal
    paused_per_hour: Decimal = Decimal(0)
    currency: Text
    starts_at: datetime | None = Field(None, description="With its offset; from now if not given")


@router.operation("GET", "/prices", Listing[PriceOut], people=Action.VIEW)
def prices_list_view(request: Request, page: Query[PageQuery]) -> Listing[PriceOut]:
    """List the prices that costs are worked out with."""
    return listing(paginate(prices_visible(request.actor), page.cursor, page.limit), PriceOut.of)


@router.operation("POST", "/prices", PriceOut, people=Action.CONFIGURE, status=201, makes=True)
def price_create_view(request: Request, body: PriceIn) -> PriceOut:
    """Say what an hour of one sandbox costs."""
    at = body.environment
    return PriceOut.of(
        price_set(
            actor=request.actor,
            provider=body.provider,
            environment=environments_visible(request.actor).by_ref(at) if at else None,
            per_hour=body.per_hour,
            paused_per_hour=body.paused_per_hour,
            currency=body.currency,
            starts_at=body.starts_at,
        )
    )


@router.operation("DELETE", "/prices/{ref}", None, people=Action.CONFIGURE, status=204)
def price_remove_view(request: Request, ref: str) -> None:
    """Take back a price that was wrong."""
    price_remove(actor=request.actor, price=prices_visible(request.actor).by_ref(ref))
