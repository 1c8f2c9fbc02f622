"""A team's secrets over the API; their values go in and never come out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Listing, PageQuery, Text, listing
from sandboxes.models import Secret
from sandboxes.selectors import secrets_visible
from sandboxes.services import secrets as services

router = Operations(tags=["Secrets"])


class SecretOut(Schema):
    """A secret, without its value."""

    id: str
    name: str
    description: str
    hosts: list[str] = Field(
        description="Where it may be sent; empty: wherever its reader sends it"
    )
    header: str
    template: str
    environments: list[str] = Field(description="The names of those that refer to it")
    created_by: str | None
    created_at: datetime
    rotated_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, row: Secret) -> SecretOut:
        """Show a secret."""
        return cls(
            id=row.ref,
            name=row.name,
            description=row.description,
            hosts=row.hosts,
            header=row.header,
            template=row.template,
            environments=services.environments_using(row),
            created_by=row.created_by.email if row.created_by else None,
            created_at=row.created_at,
            rotated_at=row.rotated_at,
            last_used_at=row.last_used_at,
        )


class ValueIn(Body):
    """A value, which is kept encrypted and shown to nobody."""

    value: Text = Field(json_schema_extra={"writeOnly": True})


class SecretIn(ValueIn):
    """A new secret. Where it may go cannot be changed later."""

    name: Text = Field(description="Named like a variable, such as GITHUB_TOKEN")
    description: Text = ""
    hosts: list[Text] = Field(default_factory=list, description="Such as api.example.org")
    header: Text = Field(services.HEADER, description="Carries it to its hosts")
    template: Text = Field(services.TEMPLATE, description="What the header says, {} for the value")


def _rows(request: Request) -> Any:
    return secrets_visible(request.actor).select_related("created_by")


@router.operation("GET", "/secrets", Listing[SecretOut], people=Action.VIEW)
def secrets_list_view(request: Request, page: Query[PageQuery]) -> Listing[SecretOut]:
    """List the secrets of the team, without their values."""
    return listing(paginate(_rows(request), page.cursor, page.limit), SecretOut.of)


@router.operation("POST", "/secrets", SecretOut, people=Action.CONFIGURE, status=201, makes=True)
def secret_create_view(request: Request, body: SecretIn) -> SecretOut:
    """Keep a secret for environments to refer to."""
    return SecretOut.of(services.secret_create(actor=request.actor, **body.model_dump()))


@router.operation("GET", "/secrets/{ref}", SecretOut, people=Action.VIEW)
def secret_view(request: Request, ref: str) -> SecretOut:
    """Get a secret, without its value."""
    return SecretOut.of(_rows(request).by_ref(ref))


@router.operation("PUT", "/secrets/{ref}/value", SecretOut, people=Action.CONFIGURE)
def secret_replace_view(request: Request, ref: str, body: ValueIn) -> SecretOut:
    """Give a secret another value, for sandboxes made from now on."""
    row = _rows(request).by_ref(ref)
    services.secret_replace(actor=request.actor, secret=row, value=body.value)
    return SecretOut.of(_rows(request).by_ref(ref))


@router.operation("POST", "/secrets/{ref}/archive", SecretOut, people=Action.CONFIGURE)
def secret_archive_view(request: Request, ref: str) -> SecretOut:
    """Forget a secret; 409, naming them, while environments or open runs use it."""
    row = _rows(request).by_ref(ref)
    services.secret_archive(actor=request.actor, secret=row)
    return SecretOut.of(row)
