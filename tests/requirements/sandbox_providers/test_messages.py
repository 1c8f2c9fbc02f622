"""When things go wrong: every message, word for word, at every door."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from django.test import Client

from omniweb.core.errors import InvalidInput, ProviderMissing
from sandboxes.capabilities import Setting
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers import registry
from sandboxes.providers.registry import check_environment, open_provider, provider_spec
from sandboxes.services.sandboxes import sandbox_provision
from tests.factories import ask, policy_use, run_again
from tests.people import People, bearer, browser_for
from tests.requirements.sandbox_providers.doors import (
    Place,
    refused_everywhere,
    refused_in_the_api,
    refused_in_the_form,
    refused_in_the_protocol,
    session_open,
)
from tests.requirements.sandbox_providers.vendors import hosted

NEEDED = {"http": {"base_url": "https://sandboxes.example.org"}}
OPEN = {"default": "allow"}
HOST = "packages.example.org"

# Each setting as a manifest asks for it, and the sentence after "The … sandbox does not enforce".
ASKED: dict[Setting, tuple[dict[str, Any], str]] = {
    Setting.IMAGE: (
        {"image": "python:3.12-slim"},
        (
            "an image (image): local runs on the host and has no image; remove it, or use a provider "
            "that runs one"
        ),
    ),
    Setting.ALLOWED_HOSTS: (
        {"network_policy": {"allowed_hosts": [HOST]}},
        (
            "a network host allowlist (allowed_hosts): use network_policy default 'deny' or 'allow', "
            "or a provider that enforces one (modal, http)"
        ),
    ),
    Setting.DENIED_HOSTS: (
        {"network_policy": {"default": "allow", "denied_hosts": [HOST]}},
        (
            "blocking named hosts (denied_hosts): use network_policy default 'deny' with allowed_hosts "
            "on a provider that enforces them, or the http provider with a service that does"
        ),
    ),
    Setting.NETWORK_OFF: (
        {},
        (
            "network off: local runs on the host and cannot cut its network; set network_policy "
            "default 'allow' with no host lists, or use an isolating provider such as docker"
        ),
    ),
    Setting.WORKSPACE_MOUNT: (
        {"workspace_mount": {"source": "/srv/data", "target": "/data"}},
        (
            "a workspace mount (workspace_mount): use the workspace bridge, which copies files in and "
            "out on every provider, or the docker provider"
        ),
    ),
    Setting.SECRETS: (
        {"environment": {"secret_refs": ["vault/key"]}},
        (
            "delivering secrets (environment.secret_refs): put a value the command may see in "
            "environment.plain, or keep the secret out of the sandbox and call the service from a "
            "tool instead"
        ),
    ),
    Setting.CPU: (
        {"resources": {"cpu": "1"}},
        "a CPU limit (resources.cpu): leave it unset, or use a provider that applies it",
    ),
    Setting.MEMORY: (
        {"resources": {"memory": "1g"}},
        "a memory limit (resources.memory): leave it unset, or use a provider that applies it",
    ),
    Setting.GPU: (
        {"resources": {"gpu": True}},
        (
            "a GPU (resources.gpu): leave it unset, or use the http provider with a service that "
            "provides one"
        ),
    ),
    Setting.LIFETIME: (
        {"resources": {"timeout_seconds": 60}},
        (
            "a sandbox lifetime (resources.timeout_seconds): set the provider's own timeout_seconds "
            "option in sandbox_config instead"
        ),
    ),
}
# Who does not keep a setting: the network table, and "The same check refuses denied_hosts on any
# built-in provider but http, and environment.secret_refs on every built-in provider".
BUILT_IN = ("docker", "e2b", "daytona", "modal", "vercel", "http", "local")
REFUSES: dict[Setting, tuple[str, ...]] = {
    Setting.IMAGE: ("local",),
    # "docker, e2b, daytona, vercel or local"; the hosted ones keep them since, and so does docker,
    # by a gateway of ours.
    Setting.ALLOWED_HOSTS: ("local",),
    # "any built-in provider but http"; docker is ours.
    Setting.DENIED_HOSTS: ("e2b", "daytona", "modal", "vercel", "local"),
    Setting.NETWORK_OFF: ("local",),
    Setting.WORKSPACE_MOUNT: ("e2b", "daytona", "modal", "vercel", "http", "local"),
    # "on every built-in provider"; those that can keep secrets deliver them since.
    Setting.SECRETS: ("http", "local"),
    Setting.CPU: ("e2b", "local"),
    Setting.MEMORY: ("e2b", "local"),
    Setting.GPU: ("docker", "e2b", "daytona", "modal", "vercel", "local"),
    Setting.LIFETIME: BUILT_IN,
}
REFUSALS = [(provider, setting) for setting, names in REFUSES.items() for provider in names]


def place(provider: str, setting: Setting) -> Place:
    """Return an environment that asks a provider for one thing, and for nothing else it cannot do."""
    fields = dict(ASKED[setting][0])
    if provider == "local" and setting is not Setting.NETWORK_OFF:
        fields["network_policy"] = {**fields.get("network_policy", {}), **OPEN}
    return Place(provider=provider, options=NEEDED.get(provider, {}), manifest=fields)


@pytest.mark.parametrize(
    ("provider", "setting"), REFUSALS, ids=[f"{name}: {setting}" for name, setting in REFUSALS]
)
def test_what_a_provider_does_not_enforce_is_refused_at_every_door(
    people: People, provider: str, setting: Setting
) -> None:
    """'The docker sandbox does not enforce a network host allowlist', and its like."""
    sentence = f"The {provider} sandbox does not enforce {ASKED[setting][1]}"
    assert refused_everywhere(people, place(provider, setting)) == [sentence] * 3


def test_the_whole_sentence_is_the_documents() -> None:
    """'ValueError: The docker sandbox does not enforce a network host allowlist (allowed_hosts)…'.

    Here it is local's: docker enforces one.
    """
    with pytest.raises(InvalidInput) as refused:
        check_environment("local", {}, Manifest.parse(ASKED[Setting.ALLOWED_HOSTS][0]))
    assert refused.value.detail == (
        "The local sandbox does not enforce a network host allowlist (allowed_hosts): use "
        "network_policy default 'deny' or 'allow', or a provider that enforces one (modal, http)"
    )


@pytest.mark.parametrize("setting", list(Setting))
def test_everyone_else_keeps_it(setting: Setting) -> None:
    """The same table, read for a yes."""
    for provider in set(BUILT_IN) - set(REFUSES[setting]):
        asked = place(provider, setting)
        check_environment(provider, asked.options, Manifest.parse(asked.manifest))


@pytest.mark.parametrize(
    ("provider", "wire", "setting"),
    [
        ("local", {"network": {"default": "deny", "allowed_hosts": [HOST]}}, Setting.ALLOWED_HOSTS),
        ("local", {"network": {"default": "allow", "denied_hosts": [HOST]}}, Setting.DENIED_HOSTS),
        ("docker", {"resources": {"gpu": True}}, Setting.GPU),
        ("docker", {"resources": {"timeout_seconds": 60}}, Setting.LIFETIME),
    ],
)
def test_what_a_session_asks_for_on_top_is_refused_when_it_opens(
    people: People, provider: str, wire: dict[str, Any], setting: Setting
) -> None:
    """The same check, for what an agent's own manifest says."""
    place = Place(provider=provider, manifest={"network_policy": OPEN})
    told = refused_in_the_protocol(people, place, wire)
    assert told == f"The {provider} sandbox does not enforce {ASKED[setting][1]}"


def test_a_change_is_refused_as_the_first_save_is(people: People) -> None:
    """Options and manifest "are refused when the environment is saved", however often it is."""
    row = Environment.objects.create(team=people.team, name="docker", provider="docker")
    answer = Client().patch(
        f"/api/v1/environments/{row.ref}",
        {"manifest": ASKED[Setting.GPU][0]},
        content_type="application/json",
        headers=bearer(people.operator),
    )
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"The docker sandbox does not enforce {ASKED[Setting.GPU][1]}"


# "provider must be a registered sandbox provider"

UNREGISTERED = (
    "governance_config.sandbox_config.provider must be a registered sandbox provider: "
    "daytona, docker, e2b, http, local, local_test, modal, none, vercel"
)


def test_a_misspelt_provider_is_answered_with_those_there_are(people: People) -> None:
    """'A misspelled provider, or one of yours not registered before the agent is built'."""
    misspelt = Place(provider="dokcer")
    assert refused_in_the_api(people, misspelt)[0] == UNREGISTERED
    assert refused_in_the_protocol(people, misspelt) == UNREGISTERED


def test_the_form_of_a_misspelt_provider_says_so_too(people: People) -> None:
    """The form is chosen by the provider's name, so there is none."""
    answer = browser_for(people.operator).get("/environments/new?provider=dokcer")
    assert answer.status_code == 404
    assert UNREGISTERED in answer.text


# "Unknown docker sandbox option(s): network"

NINE = (*BUILT_IN, "none", "local_test")


@pytest.mark.parametrize("provider", NINE)
def test_an_unknown_option_is_refused_at_every_door(people: People, provider: str) -> None:
    """'Options are checked per provider; the network belongs in the manifest'."""
    options = {**NEEDED.get(provider, {}), "network": "allow"}
    manifest = {"network_policy": OPEN} if provider == "local" else {}
    asked = Place(provider=provider, options=options, manifest=manifest)
    sentence = f"Unknown {provider} sandbox option(s): network"
    advice = 'Use "sandbox_manifest": {"network_policy": {"default": "allow"}}.'
    assert refused_in_the_form(people, asked) == [f"{sentence} {advice}"]
    assert refused_in_the_api(people, asked)[0] == sentence
    assert refused_in_the_protocol(people, asked) == sentence


def test_the_http_provider_is_checked_as_well(people: People) -> None:
    """A missing base_url is found when an environment is saved, not by its first command."""
    sentence = "http sandbox option 'base_url' is required"
    assert refused_everywhere(people, Place(provider="http")) == [sentence] * 3


# "The local sandbox cannot restrict the network"

LOCAL_OFF = (
    "The local sandbox does not enforce network off: local runs on the host and cannot cut its "
    "network; set network_policy default 'allow' with no host lists, or use an isolating provider "
    "such as docker"
)


@pytest.mark.parametrize("manifest", [{}, {"working_dir": "/srv"}, {"network_policy": {}}])
def test_local_says_that_it_cannot_cut_the_network(
    people: People, manifest: dict[str, Any]
) -> None:
    """'local with no sandbox_manifest, or one that leaves the network at its default'."""
    asked = Place(provider="local", manifest=manifest)
    assert refused_everywhere(people, asked) == [LOCAL_OFF] * 3


# "requires optional dependency", "needs the Docker SDK"


@pytest.fixture
def without_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the providers' SDKs away."""
    sdks = {spec.sdk for spec in registry.provider_specs()}

    def missing(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in sdks else importlib.util.find_spec(name, package)

    monkeypatch.setattr(registry, "find_spec", missing)


DOCKER_SDK = "The Docker sandbox needs the Docker SDK: pip install omniweb[docker]"


@pytest.mark.usefixtures("without_sdks")
def test_without_the_docker_extra_nothing_fails_until_the_first_command(people: People) -> None:
    """'nothing fails when the agent is built: the run's first execute call fails with …'."""
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n")
    check_environment("docker", {}, Manifest())
    row = Environment.objects.create(
        # Options of its own: the provider is opened once per process and options.
        team=people.team,
        name="without",
        provider="docker",
        options={"pids_limit": 77},
    )
    assert session_open(people.agent, row).status_code == 201
    run = run_again(row.runs.get())
    waiting = ask(people.agent, run, "echo hi")
    sandbox_provision(sandbox=run.sandboxes.get())
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == ("failed", DOCKER_SDK)


@hosted("a missing SDK is said", "e2b", "daytona", "modal", "vercel")
@pytest.mark.usefixtures("without_sdks")
def test_a_missing_extra_is_said_with_how_to_install_it(provider: str) -> None:
    """'ImportError: … requires optional dependency'."""
    named = provider_spec(provider).label
    wanted = (
        f"the {named} sandbox requires optional dependency '{provider}'. "
        f"Install it with: pip install 'omniweb[{provider}]'"
    )
    with pytest.raises(ProviderMissing) as missing:
        open_provider(provider, {})
    if missing.value.detail != wanted:
        raise missing.value
