"""The three doors at which an environment can be refused: form and API save it, the protocol opens."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.test import Client
from django.urls import reverse

from omniweb.accounts.permissions import Actor
from sandboxes.models import Environment, Profile
from tests.people import People, bearer, browser_for
from tests.providers import unique

JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An environment somebody wants."""

    provider: str
    options: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)


def refused_in_the_form(people: People, place: Place) -> list[str]:
    """Return what the page says to an operator who wants to save it."""
    address = f"{reverse('environment_new')}?provider={place.provider}&as=json"
    written = {
        "name": unique("env"),
        "options": json.dumps(dict(place.options)),
        "manifest": json.dumps(dict(place.manifest)),
    }
    answer = browser_for(people.operator).post(address, written)
    assert answer.status_code == 422, answer.status_code
    said = [text for texts in answer.context["form"].errors.values() for text in texts]
    page = html.unescape(answer.text)
    assert all(text in page for text in said)
    return said


def refused_in_the_api(people: People, place: Place) -> list[str]:
    """Return what the API says to whoever wants to save it."""
    body = {
        "name": unique("env"),
        "provider": place.provider,
        "options": dict(place.options),
        "manifest": dict(place.manifest),
    }
    answer = Client().post(
        "/api/v1/environments", body, content_type=JSON, headers=bearer(people.operator)
    )
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_input"), answer.text
    return [problem["detail"], *(item["message"] for item in problem["problems"])]


def refused_in_the_protocol(
    people: People, place: Place, session: Mapping[str, Any] | None = None
) -> str:
    """Return what an agent is told whose environment is no longer, or never was, one to save."""
    row = Environment.objects.create(
        team=people.team,
        name=unique("env"),
        provider=place.provider,
        options=dict(place.options),
        manifest=dict(place.manifest),
    )
    answer = session_open(people.agent, row, session)
    assert answer.status_code == 422, answer.text
    detail: str = answer.json()["detail"]
    return detail


def session_open(
    agent: Actor, environment: Environment, manifest: Mapping[str, Any] | None = None
) -> Any:
    """Send an agent's `POST /sessions` with its environment set to this one."""
    Profile.objects.filter(agent=agent.agent).update(environment=environment)
    return Client().post(
        "/sandbox/v1/sessions",
        {"manifest": dict(manifest or {})},
        content_type=JSON,
        headers=bearer(agent),
    )


def refused_everywhere(people: People, place: Place) -> list[str]:
    """Return the sentence of each door, the suggestions of the form left out."""
    return [
        refused_in_the_form(people, place)[0],
        refused_in_the_api(people, place)[0],
        refused_in_the_protocol(people, place),
    ]
