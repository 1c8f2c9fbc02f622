"""What each provider keeps, what it needs, and whether it works here."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput, NotFound, OmniWebError
from omniweb.core.htmx import page
from sandboxes.capabilities import NAMES, Setting
from sandboxes.models import EnvironmentTest
from sandboxes.providers.registry import open_provider, provider_spec, provider_specs
from sandboxes.providers.spec import ProviderSpec
from sandboxes.selectors import tests_last_by_provider
from sandboxes.views.circuits import circuits_shown
from sandboxes.views.prices import prices_shown
from sandboxes.views.tests_shown import ShownTest, shown_test

PATIENCE_SECONDS = 4


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the network table: its words, and whether they are a yes, a no or in part."""

    text: str
    tone: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One provider as the page shows it; `credentials` are names and whether each is set."""

    spec: ProviderSpec
    network: list[Cell]
    is_installed: bool
    credentials: list[tuple[str, bool]]
    keeps: list[bool | None]
    last: ShownTest | None


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a look at a provider came to: good, bad or unsure, and a line about it."""

    tone: str
    word: str
    line: str


@require_GET
@door(Action.VIEW)
def providers_view(request: Request) -> HttpResponse:
    """The table of all providers; whether each works here is fetched by the page."""
    last = tests_last_by_provider(request.actor)
    context = {
        "rows": [_row(spec, last.get(spec.name)) for spec in provider_specs()],
        "settings": [name.partition(" (")[0] for name in NAMES.values()],
        **circuits_shown(request.actor),
        **prices_shown(request.actor),
    }
    return page(request, "sandboxes/providers.html", context)


def _row(spec: ProviderSpec, last: EnvironmentTest | None) -> Row:
    promise = spec.network
    words = (promise.deny, promise.allow, promise.allowed_hosts, promise.checked_inside)
    keeps = [None if spec.enforces is None else setting in spec.enforces for setting in Setting]
    return Row(
        spec=spec,
        network=[Cell(text=text, tone=_tone(text)) for text in words],
        is_installed=spec.sdk is None or find_spec(spec.sdk) is not None,
        credentials=[(name, bool(os.environ.get(name))) for name in spec.credentials],
        keeps=keeps,
        last=shown_test(last) if last else None,
    )


def _tone(text: str) -> str:
    if text.startswith(("Yes", "Required")):
        return "yes"
    return "no" if text.startswith(("Refused", "No", "-")) else "part"


@require_GET
@door(Action.VIEW)
def here_view(request: Request, name: str) -> HttpResponse:
    """Whether a provider works here, with its default options."""
    try:
        spec = provider_spec(name)
    except InvalidInput as error:
        raise NotFound(error.detail) from None
    found = look(spec, {})
    return render(request, "sandboxes/here.html", {"found": found})


def look(spec: ProviderSpec, options: Mapping[str, Any]) -> Found:
    """Ask a provider whether it would work, for at most a few seconds."""
    if any(option.required and not options.get(option.name) for option in spec.options):
        return Found(tone="plain", word="By environment", line="Needs options of an environment")
    try:
        line = _patiently(spec.name, options)
    except OmniWebError as error:
        return Found(tone="bad", word="Not usable", line=error.detail)
    except Exception as error:  # noqa: BLE001 - anybody can bring a provider; the page is for all
        line = f"{type(error).__name__}: {error}"
        return Found(tone="bad", word="Not usable", line=line)
    if line is None:
        words = f"It did not answer within {PATIENCE_SECONDS} seconds"
        return Found(tone="unsure", word="No answer", line=words)
    return Found(tone="good", word="Usable", line=line)


def _patiently(name: str, options: Mapping[str, Any]) -> str | None:
    """Return what the provider says of itself, None when it takes too long to."""
    answers: list[str] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            answers.append(open_provider(name, options).check())
        except Exception as error:  # noqa: BLE001 - raised again where someone waits for it
            errors.append(error)

    # A thread of its own, so that one silent provider cannot use up a pool.
    asking = threading.Thread(target=ask, name=f"check {name}", daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    if errors:
        raise errors[0]
    return answers[0] if answers else None
