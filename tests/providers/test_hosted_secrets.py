"""Secrets at the hosted providers: sent as each vendor takes them, and in no sandbox that hides them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from omniweb.core.errors import ProviderError, SandboxUnsupported
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.delivery import GivenSecret, covers, headers_by_host, reachable
from sandboxes.providers.registry import open_provider
from tests.providers.conftest import DAYTONA, E2B, MODAL, VERCEL
from tests.providers.hosted import hosted
from tests.providers.running import sh, somebody
from tests.standins.wire import Reply

VALUE = "Zq9tugboat-4711-unlike-anything"
HOST = "api.example.org"
SENT = GivenSecret(name="HARBOUR_TOKEN", value=VALUE, hosts=(HOST,), template="Bearer {}")
READ = GivenSecret(name="HARBOUR_TOKEN", value=VALUE)
LISTED = {"network_policy": {"allowed_hosts": [HOST, "*.files.example.org"]}}
OPEN = {"network_policy": {"default": "allow"}}
NAMED = {"environment": {"secret_refs": ["HARBOUR_TOKEN"]}}


@pytest.fixture
def vendor(request: pytest.FixtureRequest) -> Iterator[Any]:
    with hosted(request.param) as found:
        yield found


def create(name: str, fields: dict[str, Any], *given: GivenSecret) -> LiveSandbox:
    manifest = Manifest.parse({**fields, **NAMED})
    return open_provider(name, {}).create(manifest, owner=somebody(), secrets=given)


def inside(sandbox: LiveSandbox) -> str:
    """Return what a command can find out: its variables, and all files it may read there."""
    return sh(sandbox, "env; grep -rs tugboat /workspace /run/secrets /etc/environment").text


@pytest.mark.parametrize("vendor", [E2B], indirect=True)
@pytest.mark.parametrize("fields", [LISTED, OPEN], ids=["listed", "open"])
def test_e2b_adds_it_to_requests_to_its_hosts(vendor: Any, fields: dict[str, Any]) -> None:
    sandbox = create("e2b", fields, SENT)
    [made] = vendor.created
    assert made["rules"] == {
        HOST: [{"transform": {"headers": {"Authorization": f"Bearer {VALUE}"}}}]
    }
    assert VALUE not in inside(sandbox) + str(dict(sandbox.handle)) + str(made["env"])
    with pytest.raises(SandboxUnsupported, match="keeps the network it was made with"):
        sandbox.set_network(NetworkPolicy())


@pytest.mark.parametrize("vendor", [VERCEL], indirect=True)
def test_vercel_adds_it_to_requests_to_its_hosts(vendor: Any) -> None:
    adding = [{"transform": [{"headers": {"Authorization": f"Bearer {VALUE}"}}]}]
    sandbox = create("vercel", LISTED, SENT)
    create("vercel", OPEN, SENT)
    listed, opened = (one["allow"] for one in vendor.created)
    assert listed == {HOST: adding, "*.files.example.org": []}
    assert opened == {"*": [], HOST: adding}
    assert VALUE not in inside(sandbox) + str(dict(sandbox.handle))
    with pytest.raises(SandboxUnsupported, match="keeps the network it was made with"):
        sandbox.set_network(NetworkPolicy())


@pytest.mark.parametrize("vendor", [DAYTONA], indirect=True)
def test_daytona_keeps_it_apart_and_forgets_it_with_its_sandbox(vendor: Any) -> None:
    sandbox = create("daytona", LISTED, SENT)
    [kept] = vendor.kept.values()
    assert (kept["value"], kept["hosts"]) == (VALUE, [HOST])
    assert sh(sandbox, 'printf %s "$HARBOUR_TOKEN"').text == kept["placeholder"]
    assert VALUE not in inside(sandbox) + str(dict(sandbox.handle))
    sandbox.terminate()
    assert vendor.kept == {}


@pytest.mark.parametrize("vendor", [DAYTONA], indirect=True)
def test_daytona_forgets_what_a_lost_or_a_failed_sandbox_has_left(vendor: Any) -> None:
    provider, owner = open_provider("daytona", {}), somebody()
    manifest = Manifest.parse({**LISTED, **NAMED})
    lost = provider.create(manifest, owner=owner, secrets=[SENT])
    vendor.lose(lost.handle["sandbox"])
    lost.terminate()
    assert vendor.kept == {}
    # As the reconciler does, which knows no more than the vendor tells.
    provider.create(manifest, owner=owner, secrets=[SENT])
    gone = provider.create(manifest, owner=owner, secrets=[SENT])
    vendor.lose(gone.handle["sandbox"])
    listed = provider.list_owned(owner.install, run=owner.run)
    assert [one.running for one in listed] == [True, False]
    assert {(one.run, one.sandbox) for one in listed} == {(owner.run, owner.sandbox)}
    assert provider.list_owned("another") == provider.list_owned(owner.install, run="another") == []
    assert provider.cleanup(owner.install) == 2
    assert vendor.kept == {}
    vendor.comes_to = "build_failed"
    with pytest.raises(ProviderError):
        provider.create(manifest, owner=owner, secrets=[SENT])
    assert vendor.kept == {}


@pytest.mark.parametrize("vendor", [DAYTONA], indirect=True)
def test_a_lost_answer_of_daytona_keeps_it_once(vendor: Any) -> None:
    vendor.fail("POST /api/secret$", lost=True, times=1)
    create("daytona", LISTED, SENT)
    assert len(vendor.kept) == 1


@pytest.mark.parametrize("vendor", [MODAL], indirect=True)
def test_modal_gives_it_to_commands_and_keeps_none_by_name(vendor: Any) -> None:
    sandbox = create("modal", LISTED, READ)
    assert sh(sandbox, 'printf %s "$HARBOUR_TOKEN"').text == VALUE
    assert VALUE not in str(dict(sandbox.handle))
    with pytest.raises(SandboxUnsupported, match="keeps the network it was made with"):
        sandbox.set_network(NetworkPolicy(default="allow"))


@pytest.mark.parametrize("vendor", [E2B, DAYTONA, VERCEL], indirect=True)
def test_what_a_vendor_says_of_a_secret_is_not_repeated(vendor: Any) -> None:
    name = type(vendor).__name__.lower()
    vendor.fail("POST ", reply=_echo(name), times=50)
    with pytest.raises(ProviderError) as error:
        create(name, LISTED, SENT)
    assert "no thanks" in error.value.detail
    assert VALUE not in error.value.detail


def _echo(name: str) -> Reply:
    said = f"no thanks, not {VALUE}"
    body = {"error": {"code": "bad", "message": said}} if name == "vercel" else {"message": said}
    return Reply(status=400, body={"statusCode": 400, "code": 400, **body})


@pytest.mark.parametrize("name", ["docker", "e2b", "daytona", "modal", "vercel"])
def test_none_makes_a_sandbox_without_a_secret_its_manifest_names(name: str) -> None:
    with pytest.raises(SandboxUnsupported, match="HARBOUR_TOKEN was not given"):
        create(name, LISTED if name != "docker" else {})


@pytest.mark.parametrize("name", ["docker", "modal"])
def test_where_commands_read_it_the_network_keeps_it_in(name: str) -> None:
    with pytest.raises(SandboxUnsupported, match="sandbox can read it"):
        create(name, OPEN, SENT)


def test_hosts_meet_where_one_covers_the_other() -> None:
    assert covers("*.example.org", "a.example.org")
    assert not covers("*.example.org", "example.org")
    assert not covers("*.example.org", "a.badexample.org")
    policy = NetworkPolicy(allowed_hosts=("*.a.example.org", "other.org"))
    assert reachable(policy, ["*.example.org", "x.a.example.org"]) == (
        "x.a.example.org",
        "*.a.example.org",
    )
    assert reachable(NetworkPolicy(), ["a.example.org"]) == ()
    assert headers_by_host(NetworkPolicy(), [SENT]) == {}


def test_a_value_is_in_no_repr() -> None:
    assert VALUE not in repr(SENT)
