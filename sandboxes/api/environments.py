"""Environments and providers over the API."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from ninja import Query, Schema
from pydantic import Field

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.core.errors import NotFound, OmniWebError
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing
from sandboxes.models import (
    Environment,
    EnvironmentTest,
    EnvironmentTestState,
)
from sandboxes.providers import conformance
from sandboxes.providers.registry import check_installed, provider_specs
from sandboxes.providers.spec import ProviderSpec
from sandboxes.secrecy import HIDDEN, hidden, revealed
from sandboxes.selectors import (
    environment_tests_visible,
    environments_visible,
)
from sandboxes.services import environments as services
from sandboxes.services.capacity import capacity_set
from sandboxes.services.environment_tests import environment_test_cancel, environment_test_start
from sandboxes.services.warm import warm_set

router = Operations(tags=["Environments and sandboxes"])


class EnvironmentOut(Schema):
    """A named place to run."""

    id: str
    name: str
    provider: str
    options: Json = Field(description=f"Secrets read `{HIDDEN}`; sent back so, they stay")
    manifest: Json = Field(description=f"Variables named like secrets read `{HIDDEN}`, likewise")
    is_enabled: bool
    max_sandboxes: int | None = Field(description="At once; null: as many as are wanted")
    warm_sandboxes: int = Field(description="Kept ready before a run asks for one")
    created_at: datetime

    @classmethod
    def of(cls, row: Environment) -> EnvironmentOut:
        """Show an environment."""
        return cls(
            id=row.ref,
            name=row.name,
            provider=row.provider,
            options=hidden(row.options, _secret_options(row.provider)),
            manifest=hidden(row.manifest),
            is_enabled=row.is_enabled,
            max_sandboxes=row.max_sandboxes,
            warm_sandboxes=row.warm_sandboxes,
            created_at=row.created_at,
        )


class EnvironmentIn(Body):
    """A new environment; refused when its provider cannot keep it."""

    name: Text
    provider: Text
    options: Json = Field(default_factory=dict)
    manifest: Json = Field(default_factory=dict)


class EnvironmentChange(Body):
    """What to change; what is not given stays."""

    options: Json | None = None
    manifest: Json | None = None
    is_enabled: bool | None = None
    max_sandboxes: int | None = Field(None, description="null takes the limit away")
    warm_sandboxes: int | None = None


def _secret_options(provider: str) -> frozenset[str]:
    found = (spec.secret_options for spec in provider_specs() if spec.name == provider)
    return next(found, frozenset())


def _changed(kept: dict[str, Any], sent: dict[str, Any] | None) -> dict[str, Any]:
    change: dict[str, Any] = kept if sent is None else revealed(sent, kept)
    return change


@router.operation("GET", "/environments", Listing[EnvironmentOut], people=Action.VIEW)
def environments_list_view(request: Request, page: Query[PageQuery]) -> Listing[EnvironmentOut]:
    """List the environments of the team."""
    rows = environments_visible(request.actor)
    return listing(paginate(rows, page.cursor, page.limit), EnvironmentOut.of)


@router.operation(
    "POST", "/environments", EnvironmentOut, people=Action.CONFIGURE, status=201, makes=True
)
def environment_create_view(request: Request, body: EnvironmentIn) -> EnvironmentOut:
    """Create an environment."""
    return EnvironmentOut.of(
        services.environment_create(
            actor=request.actor,
            name=body.name,
            provider=body.provider,
            options=body.options,
            manifest=body.manifest,
        )
    )


@router.operation("GET", "/environments/{ref}", EnvironmentOut, people=Action.VIEW)
def environment_view(request: Request, ref: str) -> EnvironmentOut:
    """Get an environment."""
    return EnvironmentOut.of(environments_visible(request.actor).by_ref(ref))


@router.operation("PATCH", "/environments/{ref}", EnvironmentOut, people=Action.CONFIGURE)
def environment_update_view(request: Request, ref: str, body: EnvironmentChange) -> EnvironmentOut:
    """Change an environment, or turn it on or off; runs that are open keep theirs."""
    actor = request.actor
    row = environments_visible(actor).by_ref(ref)
    if body.options is not None or body.manifest is not None:
        services.environment_update(
            actor=actor,
            environment=row,
            options=_changed(row.options, body.options),
            manifest=_changed(row.manifest, body.manifest),
        )
    if body.is_enabled is not None and body.is_enabled != row.is_enabled:
        services.environment_switch(actor=actor, environment=row, is_enabled=body.is_enabled)
    if "max_sandboxes" in body.model_fields_set:
        capacity_set(actor=actor, environment=row, max_sandboxes=body.max_sandboxes)
    if body.warm_sandboxes is not None:
        warm_set(actor=actor, environment=row, warm_sandboxes=body.warm_sandboxes)
    return EnvironmentOut.of(row)


class ConformanceCheckOut(Schema):
    """One check of the conformance kit: `ok`, `failed` or `skipped`, and why."""

    name: str
    topic: str
    sentence: str
    outcome: str
    reason: str
    duration_ms: int


class EnvironmentTestOut(Schema):
    """A test of an environment, with the checks made so far."""

    id: str
    environment: str
    state: EnvironmentTestState
    reason: str
    is_current: bool = Field(description="Whether the environment is still as it was tested")
    checks_in_all: int
    checks: list[ConformanceCheckOut]
    isolation: Json = Field(description="What was seen from inside; empty where nothing was tried")
    started_by: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, row: EnvironmentTest) -> EnvironmentTestOut:
        """Show a test."""
        return cls(
            id=row.ref,
            environment=row.environment.ref,
            state=EnvironmentTestState(row.state),
            reason=row.reason,
            is_current=row.is_current,
            checks_in_all=len(conformance.checks()),
            checks=[ConformanceCheckOut(**result) for result in row.results],
            isolation=row.isolation,
            started_by=row.started_by.email if row.started_by else None,
            created_at=row.created_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
        )


@router.operation(
    "POST",
    "/environments/{ref}/tests",
    EnvironmentTestOut,
    people=Action.CONFIGURE,
    status=201,
    makes=True,
)
def environment_test_create_view(request: Request, ref: str) -> EnvironmentTestOut:
    """Test an environment: a worker makes a sandbox of it and checks it; 409 while one is tested."""
    row = environments_visible(request.actor).by_ref(ref)
    return EnvironmentTestOut.of(environment_test_start(actor=request.actor, environment=row))


@router.operation(
    "GET", "/environments/{ref}/tests", Listing[EnvironmentTestOut], people=Action.VIEW
)
def environment_tests_list_view(
    request: Request, ref: str, page: Query[PageQuery]
) -> Listing[EnvironmentTestOut]:
    """List the tests of an environment, the newest first; checks appear as they are made."""
    row = environments_visible(request.actor).by_ref(ref)
    rows = environment_tests_visible(request.actor).filter(environment=row)
    return listing(paginate(rows, page.cursor, page.limit), EnvironmentTestOut.of)


@router.operation(
    "POST", "/environments/{ref}/tests/cancel", EnvironmentTestOut, people=Action.CONFIGURE
)
def environment_test_cancel_view(request: Request, ref: str) -> EnvironmentTestOut:
    """Stop the newest test of an environment and end what it has made; nothing if it is over."""
    row = environments_visible(request.actor).by_ref(ref)
    test = environment_tests_visible(request.actor).filter(environment=row).first()
    if test is None:
        raise NotFound(f"{row.name} has not been tested")
    environment_test_cancel(actor=request.actor, test=test)
    return EnvironmentTestOut.of(test)


class OptionOut(Schema):
    """One option of a provider."""

    name: str
    kind: str
    default: Any
    required: bool
    choices: list[str]
    help: str


class NetworkOut(Schema):
    """What a provider keeps of a network policy."""

    deny: str
    allow: str
    allowed_hosts: str
    checked_inside: str


class ProviderOut(Schema):
    """What a provider promises and takes, and whether it can be used here."""

    name: str
    label: str
    summary: str
    runs_where: str
    runs_as: str
    is_installed: bool
    missing: str = Field(description="What to do to install it")
    credentials: list[str] = Field(description="Variables its credentials are read from")
    credentials_note: str
    credentials_set: list[str] = Field(description="Which of them are set here")
    network: NetworkOut
    enforces: list[str] | None = Field(description="null: it is taken at its word")
    delivers: str | None = Field(description="How it gives secrets, if it does")
    can: list[str]
    supports_execution: bool
    supports_required_sandbox: bool
    options: list[OptionOut]

    @classmethod
    def of(cls, spec: ProviderSpec) -> ProviderOut:
        """Show a provider as it stands on this machine."""
        missing = _missing(spec)
        return cls(
            name=spec.name,
            label=spec.label,
            summary=spec.summary,
            runs_where=spec.runs_where,
            runs_as=spec.runs_as,
            is_installed=not missing,
            missing=missing,
            credentials=list(spec.credentials),
            credentials_note=spec.credentials_note,
            credentials_set=[name for name in spec.credentials if os.environ.get(name)],
            network=NetworkOut(
                deny=spec.network.deny,
                allow=spec.network.allow,
                allowed_hosts=spec.network.allowed_hosts,
                checked_inside=spec.network.checked_inside,
            ),
            enforces=None if spec.enforces is None else sorted(map(str, spec.enforces)),
            delivers=spec.delivers,
            can=sorted(map(str, spec.can)),
            supports_execution=spec.supports_execution,
            supports_required_sandbox=spec.supports_required_sandbox,
            options=[
                OptionOut(
                    name=option.name,
                    kind=option.kind.value,
                    default=option.default,
                    required=option.required,
                    choices=list(option.choices),
                    help=option.help,
                )
                for option in spec.options
            ],
        )


def _missing(spec: ProviderSpec) -> str:
    try:
        check_installed(spec.name)
    except OmniWebError as error:
        return error.detail
    return ""


class Providers(Schema):
    """Every provider there is."""

    items: list[ProviderOut]


@router.operation("GET", "/providers", Providers, people=Action.VIEW)
def providers_list_view(request: Request) -> Providers:
    """List all providers: what each promises, takes and needs."""
    return Providers(items=[ProviderOut.of(spec) for spec in provider_specs()])
