"""Vercel through its real SDK, against a stand-in that checks, keeps and fails as the vendor does."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from omniweb.core.errors import (
    CommandLost,
    NotFound,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.adapters import vercel as adapter
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.models import Environment, Profile
from sandboxes.providers.base import Command, LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.factories import FREE_POLICY, ask, policy_use, run_ready, work
from tests.people import People
from tests.providers.hosted import hosted
from tests.providers.running import run, sh, somebody
from tests.standins.vercel import Vercel
from tests.standins.wire import Reply

pytestmark = pytest.mark.standin
CREATE = "POST /api/v3/sandboxes$"
LIST = "GET /api/v2/sandboxes$"
RUN = "/cmd$"


def failing(status: int, message: str = "broken", **headers: str) -> Reply:
    """Return an answer that says no."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"code": "broken", "message": message}}
    return Reply(status=status, body=body, headers=named)


@pytest.fixture
def vendor() -> Iterator[Vercel]:
    """The vendor, found by the adapter for as long as the test runs."""
    with hosted("vercel") as found:
        yield found


def provider(**options: Any) -> SandboxProvider:
    """Return the provider."""
    return open_provider("vercel", options)


def create(fields: dict[str, Any] | None = None, **options: Any) -> LiveSandbox:
    """Return a sandbox: manifest fields, then options of the provider."""
    return provider(**options).create(Manifest.parse(fields or {}), owner=somebody())


# What it is asked for


def test_a_sandbox_carries_its_labels_its_lifetime_and_its_variables(vendor: Vercel) -> None:
    owner = somebody()
    manifest = Manifest.parse({"environment": {"plain": {"GREETING": "hello"}}})
    sandbox = provider(timeout_seconds=77).create(manifest, owner=owner)
    [made] = vendor.created
    assert made["tags"] == {
        "omniweb-install": owner.install,
        "omniweb-run": owner.run,
        "omniweb-sandbox": owner.sandbox,
    }
    assert (made["lifetime"], made["env"]) == (77, {"GREETING": "hello"})
    assert sh(sandbox, 'echo "$GREETING"').text == "hello"


def test_it_is_not_kept_and_its_ports_stay_closed(vendor: Vercel) -> None:
    create()
    [made] = vendor.created
    assert (made["persistent"], made["ports"]) == (False, [])


def test_the_working_directory_is_made_for_the_commands_user(vendor: Vercel) -> None:
    assert sh(create({"working_dir": "/srv/app"}), "pwd; : > file && id -un").text == (
        "/srv/app\nvercel"
    )
    with pytest.raises(SandboxUnsupported, match="cannot work in /proc/none"):
        create({"working_dir": "/proc/none"})
    assert len(vendor.living) == 1


def test_hosts_are_allowed_by_a_custom_policy(vendor: Vercel) -> None:
    hosts = ["packages.example.org", "*.files.example.org"]
    sandbox = create({"network_policy": {"allowed_hosts": hosts}})
    assert vendor.created[0]["network"] == hosts
    fetch = "import sys, urllib.request as u; print(u.urlopen('http://' + sys.argv[1]).read())"
    got = [
        run(sandbox, "python3", "-c", fetch, host).code
        for host in ("packages.example.org", "a.files.example.org", "other.example.org")
    ]
    assert got == [0, 0, 1]


def test_the_network_can_be_changed_while_it_runs(vendor: Vercel) -> None:
    sandbox = create()
    fetch = "import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=5)"
    assert run(sandbox, "python3", "-c", fetch).code != 0
    sandbox.set_network(NetworkPolicy(default="allow"))
    assert run(sandbox, "python3", "-c", fetch).code == 0
    with pytest.raises(SandboxUnsupported, match="blocking named hosts"):
        sandbox.set_network(NetworkPolicy(default="allow", denied_hosts=("a.example.org",)))


def test_processors_and_memory_are_limited_in_whole_numbers(vendor: Vercel) -> None:
    create({"resources": {"cpu": "2", "memory": "4g"}})
    [made] = vendor.created
    assert (made["vcpus"], made["memory"]) == (2, 4096)
    with pytest.raises(SandboxUnsupported, match="whole processors only"):
        create({"resources": {"cpu": "0.5"}})
    with pytest.raises(SandboxUnsupported, match="whole mebibytes"):
        create({"resources": {"memory": "1000k"}})


# When it fails


def test_an_image_there_is_not_is_refused_with_the_reason(vendor: Vercel) -> None:
    vendor.images = {"known"}
    with pytest.raises(SandboxUnsupported, match="not in the registry"):
        create({"image": "example.org/none:1"})


def test_a_sandbox_that_fails_while_it_is_made_is_refused_and_leaves_nothing(
    vendor: Vercel,
) -> None:
    vendor.comes_to = "failed"
    with pytest.raises(SandboxUnsupported, match="Vercel refused"):
        create()
    assert vendor.created
    assert not vendor.living


def test_a_sandbox_that_never_gets_ready_is_given_up(
    vendor: Vercel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "CREATE_SECONDS", 0.3)
    vendor.looks = 10**9
    with pytest.raises(ProviderUnavailable, match="Making a Vercel sandbox did not come to"):
        create()
    assert not vendor.living


def test_a_lost_answer_leaves_one_sandbox(vendor: Vercel) -> None:
    vendor.fail(CREATE, lost=True, times=1)
    vendor.looks = 0
    sandbox = create()
    assert vendor.living == {sandbox.handle["sandbox"]}
    assert len(vendor.created) == 1


def test_a_rate_limit_is_waited_out(vendor: Vercel) -> None:
    vendor.fail(LIST, reply=failing(429, "slow down", Retry_After="0"), times=2)
    assert provider().check() == "Vercel answers and takes the token"


@pytest.mark.parametrize("status", [500, 502, 503])
def test_the_vendors_own_failures_are_outages(vendor: Vercel, status: int) -> None:
    vendor.fail(LIST, reply=failing(status))
    with pytest.raises(ProviderUnavailable, match="Vercel cannot be reached"):
        provider().check()


def test_a_vendor_that_is_not_there_is_an_outage(vendor: Vercel) -> None:
    vendor.stop()
    with pytest.raises(ProviderUnavailable, match="Vercel cannot be reached"):
        provider().check()


def test_a_vendor_that_does_not_answer_is_an_outage(
    vendor: Vercel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "REQUEST_SECONDS", 0.2)
    vendor.fail(LIST, delay=2)
    with pytest.raises(ProviderUnavailable, match="did not come to an end"):
        provider().check()


@pytest.mark.parametrize("name", ["VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"])
def test_without_a_credential_the_variables_are_named(
    vendor: Vercel, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(ProviderMissing, match=name):
        provider().check()
    assert not vendor.asked


def test_a_token_that_is_not_taken_is_said_without_it(vendor: Vercel) -> None:
    vendor.keys = {"another"}
    with pytest.raises(ProviderMissing) as refused:
        provider().check()
    told = f"{refused.value.detail} {refused.value.__cause__} {refused.value.extra}"
    assert "VERCEL_TOKEN" in told
    assert vendor.variables["VERCEL_TOKEN"] not in told


def test_what_the_vendor_says_is_told_without_token_and_variables(vendor: Vercel) -> None:
    sandbox = create({"environment": {"plain": {"SECRET": "hush-hush-1"}}})
    token = vendor.variables["VERCEL_TOKEN"]
    vendor.fail("PATCH", reply=failing(400, f"bad {token} and hush-hush-1"))
    with pytest.raises(SandboxUnsupported) as refused:
        sandbox.set_network(NetworkPolicy())
    assert token not in refused.value.detail
    assert "hush" not in refused.value.detail


# Commands


def while_running(
    sandbox: LiveSandbox, act: Callable[[], object], line: str = "sleep 60"
) -> Exception | int:
    """Return what a command comes to when something happens to it: its end, or its exit code."""
    begun = threading.Event()

    def later() -> None:
        begun.wait(20)
        act()

    acting = threading.Thread(target=later)
    acting.start()
    try:
        return sandbox.execute(
            Command(argv=("sh", "-c", f"echo on; {line}")),
            on_output=lambda stream, data: begun.set(),
            cancelled=lambda: False,
        ).exit_code
    except Exception as error:  # noqa: BLE001 -- it is what is looked at
        return error
    finally:
        acting.join()


def test_bytes_that_text_would_lose_arrive(vendor: Vercel) -> None:
    ran = sh(create(), r"printf 'a\000b\377'; printf '\376' >&2")
    assert (ran.stdout, ran.stderr) == (b"a\0b\xff", b"\xfe")


def test_nothing_of_a_commands_is_printed_as_ours(
    vendor: Vercel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK prints what it is not told to capture."""
    printed: list[str] = []
    sandbox = create()
    monkeypatch.setattr(sys.stdout, "write", printed.append)
    sh(sandbox, "echo out; echo err >&2")
    assert printed == []


def test_a_command_is_not_started_twice_after_a_cut_and_is_followed_to_its_end(
    vendor: Vercel,
) -> None:
    sandbox = create()
    line = "echo ran >> ran; sleep 1; exit 5"
    assert while_running(sandbox, vendor.cut, line) == 5
    assert sh(sandbox, "cat ran").text == "ran"


def test_a_refused_start_is_not_sent_again(vendor: Vercel) -> None:
    sandbox = create()
    vendor.fail(RUN, reply=failing(502), times=1)
    with pytest.raises(CommandLost):
        sh(sandbox, "echo only once")
    assert len([asked for asked in vendor.asked if b"only once" in asked.body]) == 1


def test_a_sandbox_that_vanishes_under_a_command_is_lost(vendor: Vercel) -> None:
    sandbox = create()
    name = sandbox.handle["sandbox"]
    error = while_running(sandbox, lambda: vendor.lose(name))
    assert isinstance(error, SandboxLost)
    assert error.detail == f"The sandbox {name} no longer exists; the command did not finish"
    assert not sandbox.is_running()


def test_a_stopped_sandbox_is_lost_and_is_not_woken(vendor: Vercel) -> None:
    """The SDK would start another session, with none of the files, and say nothing."""
    sandbox = create(timeout_seconds=60)
    [known] = vendor.sandboxes.values()
    vendor._halt(known)
    for again in (sandbox, provider().attach(sandbox.handle, Manifest())):
        with pytest.raises(SandboxLost):
            sh(again, "true")
        assert not again.is_running()
    assert not [one for one in vendor.asked if one.query.get("resume") == "true"]
    assert known.status == "stopped"


def test_the_end_of_its_lifetime_is_a_loss(vendor: Vercel) -> None:
    sandbox = create(timeout_seconds=2)
    assert isinstance(while_running(sandbox, lambda: None), SandboxLost)


def test_it_can_be_given_more_time(vendor: Vercel) -> None:
    sandbox = create(timeout_seconds=60)
    [known] = vendor.sandboxes.values()
    before = known.ends_at
    sandbox.extend(600)
    assert known.ends_at - before > 500
    with pytest.raises(SandboxUnsupported, match="may not live longer"):
        sandbox.extend(7200)


def test_it_cannot_be_paused_nor_kept(vendor: Vercel) -> None:
    sandbox = create()
    for act in (sandbox.pause, sandbox.resume, sandbox.snapshot):
        with pytest.raises(SandboxUnsupported):
            act()
    assert sh(sandbox, "echo on").text == "on"


def test_it_is_destroyed_not_only_stopped(vendor: Vercel) -> None:
    sandbox = create()
    sandbox.terminate()
    sandbox.terminate()
    assert not vendor.living


# Finding it again


def test_it_is_found_again_by_its_handle_alone(vendor: Vercel) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    assert provider().attach(sandbox.handle, Manifest()).read_file("kept") == b"1"
    assert sandbox.handle == {"sandbox": vendor.created[0]["name"]}


def test_attaching_asks_nobody(vendor: Vercel) -> None:
    provider().attach({"sandbox": "gone"}, Manifest())
    assert not vendor.asked


def test_only_ours_are_listed_over_all_pages(vendor: Vercel) -> None:
    vendor.page = 2
    mine, other = somebody(), somebody()
    for owner in (mine, mine, mine, other):
        provider().create(Manifest(), owner=owner)
    vendor._halt(vendor.sandboxes[vendor.created[0]["name"]])
    owned = provider().list_owned(mine.install)
    assert {one.handle["sandbox"] for one in owned} == {made["name"] for made in vendor.created[:3]}
    assert {(one.run, one.sandbox) for one in owned} == {(mine.run, mine.sandbox)}
    assert sorted(one.running for one in owned) == [False, True, True]
    assert provider().list_owned(mine.install, run="another") == []
    assert provider().cleanup(mine.install) == 3
    assert vendor.living == {vendor.created[3]["name"]}


def test_a_missing_file_is_not_there(vendor: Vercel) -> None:
    with pytest.raises(NotFound):
        create().read_file("none")


def test_a_file_that_goes_while_it_is_read_is_no_lost_sandbox(vendor: Vercel) -> None:
    sandbox = create()
    sandbox.write_file("file", b"1")
    vendor.fail("fs/read$", reply=failing(404, "not found"))
    with pytest.raises(ProviderError) as refused:
        sandbox.read_file("file")
    assert not isinstance(refused.value, SandboxLost)


# Through the pipeline


@pytest.mark.django_db(transaction=True)
def test_a_governed_command_runs_there_and_is_recorded(vendor: Vercel, people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    place = Environment.objects.create(
        team=people.team, name="hosted", provider="vercel", options={}, manifest={}
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=place)
    here = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, here, "id -un; echo oops >&2; exit 3"))
    assert (done.state, done.exit_code, done.run.provider) == ("finished", 3, "vercel")
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"vercel\n"
    kept = str([step.payload for step in here.trajectory.steps.all()])
    assert vendor.created[0]["name"] in kept
    assert vendor.variables["VERCEL_TOKEN"] not in kept
