"""Network: what each provider enforces."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import docker
import pytest

from omniweb.core.errors import InvalidInput, SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.registry import check_environment, open_provider, provider_spec
from tests.people import People, browser_for
from tests.providers.running import somebody
from tests.providers.services import Honest, listening
from tests.requirements.sandbox_providers.doors import session_open
from tests.requirements.sandbox_providers.vendors import Hosted, hosted

NEEDED = {"http": {"base_url": "https://sandboxes.example.org"}}
SERVICE = "Your service must keep it or refuse"

# The table: deny, allow, allowed_hosts, checked from inside.
TABLE: dict[str, tuple[str, str, str, str]] = {
    "docker": (
        'Yes, network_mode="none"',
        "Yes, bridge",
        "Yes (ours), by an egress gateway",
        "Not needed: Docker enforces it",
    ),
    # The document refuses the allowed_hosts of these two, of Docker and of Vercel; today's APIs
    # keep them, and a gateway of ours does for Docker.
    "e2b": ("Asked of E2B", "Yes", "Yes (ours), E2B's allow_out", "Yes"),
    "daytona": ("Asked of Daytona", "Yes", "Yes (ours), Daytona's domain_allow_list", "Yes"),
    "modal": ("Yes, block_network", "Yes", "Yes, Modal's domain allowlist", "No"),
    "vercel": ("Yes, deny-all", "Yes, allow-all", "Yes (ours), a custom policy", "No"),
    "http": (SERVICE, SERVICE, SERVICE, "Your service's job"),
    "local": ("Refused: it cannot", "Required", "Refused", "-"),
}


@pytest.mark.parametrize("provider", TABLE)
def test_a_row_of_the_table_is_what_is_promised(people: People, provider: str) -> None:
    """The cells of the network table, on the page too."""
    promise = provider_spec(provider).network
    cells = (promise.deny, promise.allow, promise.allowed_hosts, promise.checked_inside)
    assert cells == TABLE[provider]
    page = html.unescape(browser_for(people.viewer).get("/providers").text)
    assert all(cell in page for cell in cells)


def test_a_manifest_denies_the_network_unless_it_says_otherwise() -> None:
    """'A manifest's network_policy is {"default": "deny"} unless you say otherwise.'"""
    bare: tuple[dict[str, Any], ...] = ({}, {"network_policy": {}})
    for fields in bare:
        policy = Manifest.parse(fields).network_policy
        assert (policy.default, policy.allowed_hosts, policy.denied_hosts) == ("deny", (), ())


# Each cell, as it is kept


@pytest.mark.docker
@pytest.mark.parametrize(("default", "mode"), [("deny", "none"), ("allow", "bridge")])
def test_docker_enforces_it_by_the_containers_network(
    docker_image: str, default: str, mode: str
) -> None:
    """docker: 'Yes, network_mode="none"' and 'Yes, bridge'."""
    provider = open_provider("docker", {"image": docker_image, "pull": "never"})
    manifest = Manifest.parse({"network_policy": {"default": default}})
    sandbox = provider.create(manifest, owner=somebody())
    engine = docker.from_env()
    try:
        container = engine.api.inspect_container(sandbox.handle["container"])
        assert container["HostConfig"]["NetworkMode"] == mode
        assert list(container["NetworkSettings"]["Networks"]) == [mode]
    finally:
        engine.close()
        sandbox.terminate()


POLICIES: list[dict[str, Any]] = [
    {"default": "deny"},
    {"default": "allow"},
    {"default": "deny", "allowed_hosts": ["packages.example.org", "*.files.example.org"]},
    {"default": "allow", "denied_hosts": ["ads.example.org"]},
]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_http_passes_the_whole_policy_on(tmp_path: Path, policy: dict[str, Any]) -> None:
    """'denied_hosts is passed on to an http service', and so is the rest."""
    with listening(Honest(tmp_path)) as service:
        provider = open_provider("http", {"base_url": service.url})
        fields = {"working_dir": str(tmp_path), "network_policy": policy}
        provider.create(Manifest.parse(fields), owner=somebody())
    sent = service.asked[0].json["manifest"]["network"]
    assert sent == {"allowed_hosts": [], "denied_hosts": [], **policy}


def test_local_requires_the_network_to_be_on(tmp_path: Path) -> None:
    """local: 'Refused: it cannot', 'Required', 'Refused'."""
    allowed = {"working_dir": str(tmp_path), "network_policy": {"default": "allow"}}
    check_environment("local", {}, Manifest.parse(allowed))
    open_provider("local", {}).create(Manifest.parse(allowed), owner=somebody())
    for policy in POLICIES[:1] + POLICIES[2:]:
        manifest = Manifest.parse({"working_dir": str(tmp_path), "network_policy": policy})
        with pytest.raises(InvalidInput, match="The local sandbox does not enforce"):
            check_environment("local", {}, manifest)
        with pytest.raises(SandboxUnsupported, match="The local sandbox does not enforce"):
            open_provider("local", {}).create(manifest, owner=somebody())


@pytest.mark.parametrize("provider", ["modal", "http", "docker", "e2b", "daytona", "vercel"])
def test_to_reach_only_some_hosts_a_provider_that_keeps_them_is_used(provider: str) -> None:
    """'use "default": "deny" with allowed_hosts on a provider that keeps them'."""
    fields = {"network_policy": {"default": "deny", "allowed_hosts": ["packages.example.org"]}}
    check_environment(provider, NEEDED.get(provider, {}), Manifest.parse(fields))


@hosted("no network is asked of it", "e2b", "daytona")
def test_no_network_is_asked_of_the_vendor(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Asked of E2B', 'Asked of Daytona'."""
    at = Hosted(provider, monkeypatch)
    at.vendor.reaches_internet = False
    at.create()
    assert at.vendor.created[0]["network"] == "off"


@hosted("block_network", "modal")
def test_modal_is_told_to_block_the_network(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Yes, block_network'."""
    at = Hosted(provider, monkeypatch)
    at.create()
    assert at.vendor.created[0]["block_network"] is True


@hosted("deny-all", "vercel")
def test_vercel_is_told_to_deny_all(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Yes, deny-all'."""
    at = Hosted(provider, monkeypatch)
    at.create()
    assert at.vendor.created[0]["network"] == "deny-all"


@hosted("allow-all", "vercel")
def test_vercel_is_told_to_allow_all(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """'Yes, allow-all'."""
    at = Hosted(provider, monkeypatch)
    at.create({"network_policy": {"default": "allow"}})
    assert at.vendor.created[0]["network"] == "allow-all"


@hosted("the network is on when the manifest says so", "e2b", "daytona", "modal")
def test_the_network_is_on_where_the_manifest_allows_it(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'Yes'."""
    at = Hosted(provider, monkeypatch)
    at.create({"network_policy": {"default": "allow"}})
    assert at.vendor.created[0]["network"] == "on"


# "Hosted "no network" is checked"


def reached(provider: str) -> str:
    """Return the refusal of a sandbox that reached the internet all the same."""
    return (
        f"The {provider} sandbox was created with no network access, but it still reached the "
        "internet: this account or plan does not enforce network isolation. Use a provider that "
        "does, allow the network in the manifest if the work needs it, or set the sandbox option "
        "verify_network_isolation=false to accept an unchecked sandbox."
    )


@hosted("a sandbox that reaches the internet is destroyed and refused", "e2b", "daytona")
def test_a_sandbox_that_connects_is_destroyed_and_refused(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'a sandbox that connects is destroyed and refused', and the two messages."""
    at = Hosted(provider, monkeypatch)
    at.vendor.reaches_internet = True
    with pytest.raises(SandboxUnsupported) as refused:
        at.create()
    assert refused.value.detail == reached(provider)
    assert not at.vendor.living


@hosted("an image without python is refused", "e2b", "daytona")
def test_an_image_without_python_is_refused_too(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'The check needs python in the image; an image without it is refused too.'

    Ours falls back to what else the image has and is refused like any other, where that reaches
    something or cannot tell (tests/providers/test_isolation.py).
    """
    at = Hosted(provider, monkeypatch)
    at.vendor.has_python, at.vendor.reaches_internet = False, True
    with pytest.raises(SandboxUnsupported) as refused:
        at.create()
    assert refused.value.detail == reached(provider)
    assert refused.value.extra["evidence"]["tool"] == "bash"
    at.vendor.reaches_internet = False
    isolation = at.create().isolation
    assert isolation is not None
    assert (isolation.verdict, isolation.tool) == ("proven", "bash")


@hosted("the check can be switched off", "e2b", "daytona")
def test_an_unchecked_sandbox_can_be_accepted(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'set "verify_network_isolation": False and accept an unchecked sandbox'."""
    at = Hosted(provider, monkeypatch)
    at.vendor.reaches_internet = True
    at.create(verify_network_isolation=False)
    assert len(at.vendor.living) == 1


@pytest.mark.parametrize("provider", ["docker", "e2b", "daytona", "modal", "vercel", "http"])
def test_allowing_the_network_asks_a_person(people: People, provider: str) -> None:
    """'allow the network in the manifest (the policy asks a person, as below)'."""
    row = Environment.objects.create(
        team=people.team,
        name="online",
        provider=provider,
        options=NEEDED.get(provider, {}),
        manifest={"network_policy": {"default": "allow"}},
    )
    assert session_open(people.agent, row).status_code == 201
    run = row.runs.get()
    [line] = run.trajectory.requests.get().lines
    assert (run.state, line["capability"]) == ("waiting", "sandbox.network.configure")
    assert run.trajectory.requests.get().sentence == (
        "fix-bot wants to turn the network on for its whole sandbox"
    )
