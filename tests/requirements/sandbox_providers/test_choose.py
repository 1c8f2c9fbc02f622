"""The introduction and "Choose a provider"."""

from __future__ import annotations

import html
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from omniweb.accounts.permissions import system
from sandboxes.adapters.local_test import Answer, forget_test_commands, register_test_command
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Profile, Run, RunState
from sandboxes.providers.registry import (
    check_environment,
    provider_spec,
    provider_specs,
    satisfies_required_sandbox,
)
from sandboxes.services.environments import environment_create, environments_install
from sandboxes.services.runs import run_end, run_finish
from tests.factories import ask, policy_use, run_again, run_ready, work
from tests.people import People, bearer, browser_for
from tests.providers.services import Honest, listening
from tests.requirements.sandbox_providers.vendors import Hosted, hosted
from tests.server import ROOT

HOSTED = ("e2b", "daytona", "modal", "vercel")

# The table "Choose a provider": extra, credentials and a note on them, where it runs, as whom.
TABLE: dict[str, tuple[str | None, tuple[str, ...], str, str, str]] = {
    "docker": ("docker", (), "a running Docker", "a container", "user 65534 (nobody)"),
    "e2b": ("e2b", ("E2B_API_KEY",), "", "an E2B sandbox", "user 1000"),
    "daytona": ("daytona", ("DAYTONA_API_KEY",), "", "a Daytona sandbox", "root"),
    "modal": (
        "modal",
        ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
        "modal token new",
        "a Modal sandbox",
        "the image's user",
    ),
    "vercel": (
        "vercel",
        ("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"),
        "",
        "a Vercel Sandbox",
        "the image's user",
    ),
    "http": (None, (), "your service's token", "a service you run", "your service decides"),
    "local": (None, (), "", "this machine, not isolated", "your user"),
    "none": (None, (), "", "nowhere", "-"),
    "local_test": (None, (), "", "handlers you register, for tests", "-"),
}


@pytest.mark.parametrize("provider", TABLE)
def test_a_row_of_the_table_is_what_is_known_of_the_provider(provider: str) -> None:
    """The cells of "Choose a provider"."""
    extra, credentials, note, runs_where, runs_as = TABLE[provider]
    spec = provider_spec(provider)
    assert (spec.extra, spec.credentials) == (extra, credentials)
    assert note in spec.credentials_note
    assert spec.runs_where.startswith(runs_where)
    assert spec.runs_as == runs_as


def test_there_are_no_other_rows() -> None:
    """The table, read as a whole."""
    assert [spec.name for spec in provider_specs()] == list(TABLE)


@pytest.mark.parametrize("provider", TABLE)
def test_page_and_api_show_the_row(people: People, provider: str) -> None:
    """The same cells, where people and programs choose."""
    extra, credentials, note, runs_where, runs_as = TABLE[provider]
    page = html.unescape(browser_for(people.operator).get("/providers").text)
    for words in (provider, runs_where, runs_as, note, *credentials):
        assert words in page
    if extra:
        assert f"pip install 'omniweb[{extra}]'" in page or find_spec(extra) is not None
    told = Client().get("/api/v1/providers", headers=bearer(people.operator)).json()["items"]
    [row] = [item for item in told if item["name"] == provider]
    assert (tuple(row["credentials"]), row["runs_as"]) == (credentials, runs_as)
    assert row["runs_where"].startswith(runs_where)


def test_the_docker_extra_installs_its_sdk() -> None:
    """'Install: omnicoreagent[docker]'."""
    assert "docker" in _extras()


@hosted("the extra installs its SDK", *HOSTED)
def test_the_extra_of_a_hosted_provider_installs_its_sdk(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'Install', for each hosted provider."""
    Hosted(provider, monkeypatch)
    assert provider in _extras()


def _extras() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras: dict[str, Any] = project["optional-dependencies"]
    return extras


@pytest.mark.parametrize("provider", ["http", "local", "none", "local_test"])
def test_what_is_built_in_needs_nothing_installed(provider: str) -> None:
    """'built in'."""
    spec = provider_spec(provider)
    assert (spec.extra, spec.sdk) == (None, None)


# The list below the table


def test_the_first_environment_is_docker(people: People) -> None:
    """'Start with docker. It is free, local, and the strictest by default.'"""
    assert provider_specs()[0].name == "docker"
    assert "Start here" in provider_spec("docker").summary
    environments_install(team=people.team)
    first = Environment.objects.get(team=people.team, name="docker")
    assert (first.provider, first.manifest, first.is_enabled) == ("docker", {}, True)


def test_local_has_to_be_turned_on(people: People) -> None:
    """'local only where the machine itself is the boundary'."""
    environments_install(team=people.team)
    row = Environment.objects.get(team=people.team, name="local")
    assert (row.provider, row.is_enabled) == ("local", False)
    page = browser_for(people.operator).get(f"/environments/{row.ref}").text
    assert "only where the machine itself is the boundary" in page


def test_http_is_for_anything_without_an_adapter() -> None:
    """'http for anything without an adapter: your own sandbox service.'"""
    assert "of your own" in provider_spec("http").summary


def test_hosted_providers_isolate_off_this_machine() -> None:
    """'Hosted … when you want the sandbox off your machine.'"""
    for name in HOSTED:
        assert provider_spec(name).execution_surface == "sandbox"
        assert satisfies_required_sandbox(name, {})


# "Credentials are read … from your process's environment (or passed as options)"

SECRETS = {
    "E2B_API_KEY": "e2b-cred-1",
    "DAYTONA_API_KEY": "daytona-cred-2",
    "MODAL_TOKEN_ID": "modal-cred-3",
    "MODAL_TOKEN_SECRET": "modal-cred-4",
    "VERCEL_TOKEN": "vercel-cred-5",
    "OMNIWEB_SECRET_KEY": "own-cred-6",
}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set every credential in this process."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def everywhere(
    people: People, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Run]]:
    """Open a ready run in an environment of a provider that this machine can drive."""
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n")
    ready: list[Run] = []
    with listening(Honest(tmp_path)) as service:
        folder = str(tmp_path / "work")
        on_disk = {"working_dir": folder, "network_policy": {"default": "allow"}}
        places: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "local": ({"create_working_dir": True}, on_disk),
            "http": ({"base_url": service.url, "token": "http-cred-7"}, on_disk),
            "local_test": ({"allow_test_sandbox_runtime": True}, {}),
        }

        def open_in(provider: str) -> Run:
            if provider == "docker":
                image = request.getfixturevalue("docker_image")
                places["docker"] = ({"image": image, "pull": "never"}, {})
            options, manifest = places[provider]
            environment = environment_create(
                actor=system(people.team),
                name=provider,
                provider=provider,
                options=options,
                manifest=manifest,
            )
            Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
            ready.append(run_ready(people.agent, people.approver))
            return ready[-1]

        yield open_in
        for run in ready:
            run_end(actor=people.agent, run=run_again(run), outcome=RunState.SUCCEEDED)
            run_finish(run=run_again(run))


HERE = [pytest.param("docker", marks=pytest.mark.docker), "local", "http"]


@pytest.mark.parametrize("provider", HERE)
@pytest.mark.usefixtures("credentials")
@pytest.mark.django_db(transaction=True)
def test_no_credential_is_put_inside_a_sandbox(
    people: People, everywhere: Callable[[str], Run], provider: str
) -> None:
    """'they are never put inside a sandbox'."""
    done = work(ask(people.agent, everywhere(provider), "env; cat /proc/1/environ || true"))
    assert done.state == "finished"
    assert done.stdout is not None
    # On the host, /proc/1 is the machine's own; what a command is given is what `env` says.
    seen = bytes(done.stdout.data).partition(b"\0")[0].decode(errors="replace")
    assert "PATH=" in seen
    assert not [value for value in (*SECRETS.values(), "http-cred-7") if value in seen]


@hosted("no credential is inside", *HOSTED)
def test_no_credential_is_put_inside_a_hosted_sandbox(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'they are never put inside a sandbox', for what a vendor is asked for."""
    at = Hosted(provider, monkeypatch)
    at.create()
    # Whom and what a request itself is made for is the one place for them.
    made_as = {"key", "team", "project"}
    asked = [{name: one[name] for name in one if name not in made_as} for one in at.vendor.created]
    assert asked
    assert not [value for value in at.vendor.variables.values() if value in str(asked)]


# "Everything else … works the same with every provider"


@pytest.mark.parametrize("provider", [*HERE, "local_test"])
@pytest.mark.django_db(transaction=True)
def test_policy_and_record_are_the_same_with_every_provider(
    people: People, everywhere: Callable[[str], Run], provider: str
) -> None:
    """'the policy, … the record of each command, your credentials — stays in your process'."""
    register_test_command("sh", lambda command: Answer(stdout="hi\n"))
    run = everywhere(provider)
    done = work(ask(people.agent, run, "echo hi"))
    forget_test_commands()
    assert (done.state, done.exit_code) == ("finished", 0)
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"hi\n"
    kinds = [step.kind for step in run.trajectory.steps.order_by("seq")]
    # What asks for more than a bare sandbox has more decisions before it begins.
    told = [kind for kind in kinds if kind not in ("authority_decision", "request_opened")]
    assert told == [
        "run_opened",
        "sandbox_state",
        "execution_started",
        "output",
        "execution_ended",
    ]
    assert "authority_decision" in kinds


def test_the_manifest_is_the_same_for_every_provider() -> None:
    """'What the sandbox is … is the sandbox_manifest, the same for every provider'."""
    fields = {"working_dir": "/srv/app", "environment": {"plain": {"A": "1"}}}
    for spec in provider_specs():
        network = {"default": "allow" if spec.name == "local" else "deny"}
        options = {"base_url": "https://sandboxes.example.org"} if spec.name == "http" else {}
        check_environment(spec.name, options, Manifest.parse({**fields, "network_policy": network}))


def test_the_documents_first_example_can_be_saved(people: People) -> None:
    """'{"provider": "e2b", "options": {"timeout_seconds": 300}}'."""
    made = environment_create(
        actor=people.operator,
        name="e2b",
        provider="e2b",
        options={"timeout_seconds": 300},
        manifest={},
    )
    assert made.options == {"timeout_seconds": 300}
