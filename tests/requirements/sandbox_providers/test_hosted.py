"""E2B, Daytona, Modal and Vercel: what is known of them, and what their adapters hold."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from approvals.models import Decision
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.registry import check_environment, provider_spec
from sandboxes.providers.spec import Kind
from tests.factories import ask, policy_use, run_ready, work
from tests.people import People, bearer
from tests.providers.running import run, sh
from tests.requirements.sandbox_providers.doors import session_open
from tests.requirements.sandbox_providers.vendors import Hosted, hosted

HOSTED = ("e2b", "daytona", "modal", "vercel")

# The tables of options: name → default.
OPTIONS: dict[str, dict[str, Any]] = {
    "e2b": {
        "template": None,
        "api_key": None,
        "timeout_seconds": 600,
        "verify_network_isolation": True,
        "max_output_bytes": 1_000_000,
    },
    "daytona": {
        "image": "python:3.12-slim",
        "api_key": None,
        "api_url": None,
        "target": None,
        "verify_network_isolation": True,
        "max_output_bytes": 1_000_000,
    },
    "modal": {
        "image": "python:3.12-slim",
        "app_name": "omniweb-sandbox",
        "timeout_seconds": 600,
        "max_output_bytes": 1_000_000,
    },
    "vercel": {
        "image": None,
        "project_id": None,
        "timeout_seconds": 600,
        "max_output_bytes": 1_000_000,
    },
}


@pytest.mark.parametrize("provider", OPTIONS)
def test_the_options_are_those_of_the_tables_with_their_defaults(provider: str) -> None:
    """The tables of options, their first two columns."""
    assert provider_spec(provider).read_options({}) == OPTIONS[provider]


@pytest.mark.parametrize("provider", ["e2b", "daytona"])
def test_a_key_that_is_passed_is_a_secret(provider: str) -> None:
    """'Pass the key instead of the environment', shown on no page."""
    [key] = [option for option in provider_spec(provider).options if option.name == "api_key"]
    assert key.kind is Kind.SECRET


@pytest.mark.parametrize(
    ("provider", "variable", "option"),
    [
        ("e2b", "E2B_API_KEY", "api_key"),
        ("daytona", "DAYTONA_API_KEY", "api_key"),
        ("vercel", "VERCEL_PROJECT_ID", "project_id"),
    ],
)
def test_what_stands_in_the_environment_is_named_where_the_option_is(
    provider: str, variable: str, option: str
) -> None:
    """The defaults that are variables: 'E2B_API_KEY', 'Daytona's environment', 'VERCEL_PROJECT_ID'."""
    spec = provider_spec(provider)
    [found] = [one for one in spec.options if one.name == option]
    assert variable in spec.credentials
    assert variable in found.help


@pytest.mark.parametrize("provider", ["e2b", "daytona", "vercel"])
def test_a_host_allowlist_is_kept_where_the_document_knew_none(provider: str) -> None:
    """'allowed_hosts is refused when the agent is built', of what the APIs were then.

    All of them have come to keep one since, and so do their adapters; each is tried in
    `tests/providers`.
    """
    fields = {"network_policy": {"allowed_hosts": ["packages.example.org"]}}
    check_environment(provider, {}, Manifest.parse(fields))
    assert "ours" in provider_spec(provider).network.allowed_hosts


@pytest.mark.parametrize("default", ["deny", "allow"])
@pytest.mark.parametrize("provider", HOSTED)
def test_deny_and_allow_are_taken(provider: str, default: str) -> None:
    """'Use "deny" or "allow" on Daytona', and on the others."""
    manifest = Manifest.parse({"network_policy": {"default": default}})
    check_environment(provider, {}, manifest)


# E2B's example: "this agent asks for the network, and the policy asks a person first"


def test_an_e2b_agent_that_asks_for_the_network_waits_for_a_person(people: People) -> None:
    """'approving: sandbox.network.configure *'."""
    row = Environment.objects.create(
        team=people.team,
        name="e2b",
        provider="e2b",
        manifest={"network_policy": {"default": "allow"}},
    )
    assert session_open(people.agent, row).status_code == 201
    asked = row.runs.get().trajectory.requests.get()
    [line] = asked.lines
    assert (line["capability"], line["target"]["host"]) == ("sandbox.network.configure", "*")


# Modal: "Each allowed host is its own sandbox.network.configure question"

SOME_HOSTS = """
name: some-hosts
mode: interactive
rules:
  allow:
    - {rule_id: allow_packages, capability: sandbox.network.configure,
       target: {host: packages.example.org}, reason: The package index is known.}
"""


def test_each_allowed_host_of_modal_is_its_own_question(people: People) -> None:
    """'so a policy can allow some hosts and ask about the rest'."""
    policy_use(people.agent, SOME_HOSTS, name="some-hosts")
    hosts = ["packages.example.org", "*.files.example.org"]
    row = Environment.objects.create(
        team=people.team,
        name="modal",
        provider="modal",
        manifest={"network_policy": {"default": "deny", "allowed_hosts": hosts}},
    )
    assert session_open(people.agent, row).status_code == 201
    run_there = row.runs.get()
    decisions = Decision.objects.filter(trajectory=run_there.trajectory).order_by("id")
    assert [
        (one.capability, one.authority_request["target"]["host"], one.effect) for one in decisions
    ] == [
        ("sandbox.network.configure", "packages.example.org", "allow"),
        ("sandbox.network.configure", "*.files.example.org", "ask"),
    ]
    [line] = run_there.trajectory.requests.get().lines
    assert line["target"]["host"] == "*.files.example.org"


@hosted("allowed hosts are its outbound_domain_allowlist", "modal")
def test_modal_is_given_the_hosts(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'the hosts are passed as Modal's outbound_domain_allowlist'."""
    at = Hosted(provider, monkeypatch)
    hosts = ["packages.example.org", "*.files.example.org"]
    at.create({"network_policy": {"default": "deny", "allowed_hosts": hosts}})
    assert at.vendor.created[0]["outbound_domain_allowlist"] == hosts


@hosted("an app of ours, made if missing", "modal")
def test_modal_sandboxes_belong_to_an_app(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Sandboxes run in a Modal app …-sandbox (created if missing)'; 'app_name'."""
    at = Hosted(provider, monkeypatch)
    at.create()
    at.create(app_name="another")
    assert [one["app"] for one in at.vendor.created] == ["omniweb-sandbox", "another"]


# What each adapter does


@hosted("commands run as user 1000", "e2b")
def test_e2b_runs_commands_as_user_1000(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'user 1000 (measured)'."""
    assert run(Hosted(provider, monkeypatch).create(), "id", "-u").text == "1000"


@hosted("commands run as root", "daytona")
def test_daytona_runs_commands_as_root(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'commands ran as root'."""
    assert run(Hosted(provider, monkeypatch).create(), "id", "-u").text == "0"


@hosted("killed when its run ends", "e2b")
def test_e2b_kills_the_sandbox_when_the_run_ends(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'The sandbox is killed when the run ends.'"""
    _is_gone_once_ended(Hosted(provider, monkeypatch))


@hosted("ephemeral, deleted when its run ends", "daytona")
def test_daytona_deletes_the_sandbox_when_the_run_ends(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'Each run gets an ephemeral sandbox, deleted when the run ends.'"""
    at = Hosted(provider, monkeypatch)
    _is_gone_once_ended(at)
    assert at.vendor.created[0]["ephemeral"] is True


def _is_gone_once_ended(at: Hosted) -> None:
    sandbox = at.create()
    assert len(at.vendor.living) == 1
    sandbox.terminate()
    sandbox.terminate()
    assert not at.vendor.living


@hosted("timeout_seconds is its lifetime", "e2b", "modal", "vercel")
def test_timeout_seconds_is_the_sandboxs_lifetime(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'The sandbox's lifetime', 'The sandbox's execution time limit'."""
    at = Hosted(provider, monkeypatch)
    at.create()
    at.create(timeout_seconds=300)
    assert [one["lifetime"] for one in at.vendor.created] == [600, 300]


@hosted("an image in the manifest wins", *HOSTED)
def test_an_image_in_the_manifest_wins(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'a manifest's image wins', over `image` and over E2B's `template`."""
    at = Hosted(provider, monkeypatch)
    option = "template" if provider == "e2b" else "image"
    at.create({"image": "example.org/mine:1"}, **{option: "another"})
    assert at.vendor.created[0]["image"] == "example.org/mine:1"


@hosted("api_key in place of the environment", "e2b", "daytona")
def test_a_key_may_be_passed_instead(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Pass the key instead of the environment'; 'Where and as whom to connect'."""
    at = Hosted(provider, monkeypatch)
    for name in at.vendor.variables:
        monkeypatch.delenv(name)
    at.create(api_key="a key of its own")
    assert at.vendor.created[0]["key"] == "a key of its own"


@hosted("project_id in place of the environment", "vercel")
def test_a_project_may_be_passed_instead(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'The project the sandbox belongs to'."""
    at = Hosted(provider, monkeypatch)
    at.create(project_id="prj_other")
    assert at.vendor.created[0]["project"] == "prj_other"


@hosted("both streams, where the document knew one", "daytona")
def test_daytona_answers_with_both_streams(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'stdout holds everything and stderr is empty', of the one call that the document measured.

    Sessions, which the adapter uses, tell the two apart; nothing is lost by that.
    """
    ran = sh(Hosted(provider, monkeypatch).create(), "echo out; echo err >&2")
    assert (ran.stdout, ran.stderr) == (b"out\n", b"err\n")


@hosted("max_output_bytes caps each stream", *HOSTED)
def test_output_is_kept_up_to_the_cap(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Output kept per stream', for Daytona 'Output kept'."""
    ran = sh(Hosted(provider, monkeypatch).create(max_output_bytes=10), "echo 0123456789abc")
    assert (ran.stdout, ran.result.stdout_truncated) == (b"0123456789", True)


@pytest.mark.django_db(transaction=True)
def test_the_examples_loop_over_the_record_works_as_written(people: People) -> None:
    """'for segment in story["segments"]: for step in segment["trajectory"]["steps"]: …'."""
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n", name="free")
    run_here = run_ready(people.agent, people.approver)
    work(ask(people.agent, run_here, "true"))
    address = f"/api/v1/runs/{run_here.ref}/trajectory"
    story = Client().get(address, headers=bearer(people.agent)).json()
    told = [
        (run["sandbox_provider"], run["exit_code"], run["duration_ms"])
        for segment in story["segments"]
        for step in segment["trajectory"]["steps"]
        for call in step["tool_calls"]
        for run in call["executions"]
    ]
    [(provider, exit_code, duration)] = told
    assert (provider, exit_code) == ("local", 0)
    assert duration > 0
