"""Bring your own provider. The complete example is run in `tests/providers/test_own_provider.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from sandboxes.adapters.local_test import (
    Answer,
    LocalTestProvider,
    forget_test_commands,
    register_test_command,
)
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers import registry
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import (
    check_environment,
    provider_spec,
    register_sandbox_provider,
    satisfies_required_sandbox,
)
from tests.factories import ask, policy_use, run_ready, work
from tests.people import People, bearer, browser_for
from tests.requirements.sandbox_providers.doors import (
    Place,
    refused_in_the_api,
    refused_in_the_protocol,
    session_open,
)

seen: list[Mapping[str, Any]] = []


def make_my_sandbox(options: Mapping[str, Any]) -> SandboxProvider:
    """The document's factory: called with the options, returns what runs the commands."""
    seen.append(options)
    spec = provider_spec("local_test")
    values = spec.read_options({"allow_test_sandbox_runtime": True})
    return LocalTestProvider(spec, values)


@pytest.fixture
def mysandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider of one's own, forgotten with the test."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    seen.clear()
    register_sandbox_provider("mysandbox", make_my_sandbox)


@pytest.mark.usefixtures("mysandbox")
@pytest.mark.django_db(transaction=True)
def test_it_works_anywhere_a_providers_name_does(people: People) -> None:
    """'register_sandbox_provider("name", factory) adds a provider; it then works anywhere …'."""
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n")
    row = Environment.objects.create(
        team=people.team, name="mine", provider="mysandbox", options={"size": 3}
    )
    assert session_open(people.agent, row).status_code == 201
    assert "mysandbox" in browser_for(people.viewer).get("/providers").text
    register_test_command("sh", lambda command: Answer(stdout="mine\n"))
    done = work(ask(people.agent, run_ready(people.agent, people.approver), "true"))
    forget_test_commands()
    assert (done.state, done.exit_code) == ("finished", 0)
    assert {"size": 3} in seen


@pytest.mark.usefixtures("mysandbox")
def test_the_factory_is_called_with_the_options() -> None:
    """'The factory is called with the options dict'; there is no telemetry recorder here."""
    registry.open_provider("mysandbox", {"any": "thing"})
    assert seen == [{"any": "thing"}]


def test_the_contract_has_what_a_runtime_implements() -> None:
    """'create, execute, read_file, write_file, set_network_policy, snapshot and terminate'."""
    assert callable(SandboxProvider.create)
    for name in ("execute", "read_file", "write_file", "set_network", "snapshot", "terminate"):
        assert callable(getattr(LiveSandbox, name))


@pytest.mark.usefixtures("mysandbox")
def test_it_supports_execution_and_counts_as_a_sandbox_unless_it_says_otherwise() -> None:
    """'sets supports_execution = True and supports_required_sandbox = True'."""
    spec = provider_spec("mysandbox")
    assert (spec.supports_execution, spec.supports_required_sandbox) == (True, True)
    assert satisfies_required_sandbox("mysandbox", {})


@pytest.mark.usefixtures("mysandbox")
def test_what_it_enforces_is_its_own_word() -> None:
    """A provider without a declaration is not checked."""
    check_environment("mysandbox", {}, Manifest.parse({"resources": {"gpu": True}}))


def test_one_that_is_not_registered_is_refused(people: People) -> None:
    """'or one of yours not registered before the agent is built'."""
    place = Place(provider="mysandbox")
    for told in (refused_in_the_api(people, place)[0], refused_in_the_protocol(people, place)):
        assert told.startswith(
            "governance_config.sandbox_config.provider must be a registered sandbox provider: "
        )
        assert "mysandbox" not in told


@pytest.mark.usefixtures("mysandbox")
def test_its_name_is_listed_among_those_there_are(people: People) -> None:
    """The list in the message holds what is registered."""
    told = refused_in_the_api(people, Place(provider="mysandbx"))[0]
    assert told.endswith("modal, mysandbox, none, vercel")


@pytest.mark.usefixtures("mysandbox")
def test_its_secrets_are_shown_nowhere_though_it_declares_none(people: People) -> None:
    """'Credentials … are never put inside a sandbox', and on no page either."""
    row = Environment.objects.create(
        team=people.team,
        name="mine",
        provider="mysandbox",
        options={"api_key": "planted-key", "region": "north"},
    )
    page = browser_for(people.viewer).get(f"/environments/{row.ref}").text
    told = Client().get(f"/api/v1/environments/{row.ref}", headers=bearer(people.viewer)).text
    assert session_open(people.agent, row).status_code == 201
    record = str(row.runs.get().trajectory.steps.get(kind="run_opened").payload)
    for text in (page, told, record):
        assert "planted-key" not in text
        assert "north" in text
