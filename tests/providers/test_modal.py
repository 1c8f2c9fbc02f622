"""Modal through its real SDK, against a stand-in that checks, keeps and fails as the vendor does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import modal
import pytest
from grpclib import GRPCError, Status
from modal_proto import api_pb2

from omniweb.core.errors import (
    CommandLost,
    NotFound,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.adapters import modal as adapter
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.models import Environment, Profile
from sandboxes.providers import modal_sdk
from sandboxes.providers.base import Command, LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.factories import FREE_POLICY, ask, policy_use, run_ready, work
from tests.people import People
from tests.providers.hosted import hosted
from tests.providers.running import run, sh, somebody
from tests.standins.modal import Modal

pytestmark = pytest.mark.standin
# More often than the SDK itself tries again.
OFTEN = 50


def failing(status: Status, message: str = "broken", later: float = 0) -> GRPCError:
    """Return an answer that says no, and perhaps when to ask again."""
    return GRPCError(
        status, message, [api_pb2.RPCRetryPolicy(retry_after_secs=later)] if later else None
    )


@pytest.fixture
def vendor() -> Iterator[Modal]:
    """The vendor, found by the adapter for as long as the test runs."""
    with hosted("modal") as found:
        yield found


def provider(**options: Any) -> SandboxProvider:
    """Return the provider."""
    return open_provider("modal", options)


def create(fields: dict[str, Any] | None = None, **options: Any) -> LiveSandbox:
    """Return a sandbox: manifest fields, then options of the provider."""
    return provider(**options).create(Manifest.parse(fields or {}), owner=somebody())


# What it is asked for


def test_a_sandbox_carries_its_tags_its_lifetime_and_its_variables(vendor: Modal) -> None:
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


def test_it_stays_until_its_end_whatever_its_image_runs_and_its_ports_stay_closed(
    vendor: Modal,
) -> None:
    create(timeout_seconds=77)
    [made] = vendor.created
    assert (made["command"], made["ports"]) == (["sleep", "77"], [])


def test_the_working_directory_is_made(vendor: Modal) -> None:
    assert sh(create({"working_dir": "/srv/app"}), "pwd; : > file && id -un").text == (
        "/srv/app\nroot"
    )
    with pytest.raises(SandboxUnsupported, match="cannot work in /proc/none"):
        create({"working_dir": "/proc/none"})
    assert len(vendor.living) == 1


def test_hosts_are_allowed_by_name(vendor: Modal) -> None:
    hosts = ["packages.example.org", "*.files.example.org"]
    sandbox = create({"network_policy": {"allowed_hosts": hosts}})
    [made] = vendor.created
    assert (made["outbound_domain_allowlist"], made["block_network"]) == (hosts, False)
    fetch = "import sys, urllib.request as u; print(u.urlopen('http://' + sys.argv[1]).read())"
    got = [
        run(sandbox, "python3", "-c", fetch, host).code
        for host in ("packages.example.org", "a.files.example.org", "other.example.org")
    ]
    assert got == [0, 0, 1]


def test_the_network_can_be_changed_while_it_runs(vendor: Modal) -> None:
    sandbox = create()
    fetch = "import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=5)"
    assert run(sandbox, "python3", "-c", fetch).code != 0
    sandbox.set_network(NetworkPolicy(default="allow"))
    assert run(sandbox, "python3", "-c", fetch).code == 0
    sandbox.set_network(NetworkPolicy())
    assert run(sandbox, "python3", "-c", fetch).code != 0
    with pytest.raises(SandboxUnsupported, match="blocking named hosts"):
        sandbox.set_network(NetworkPolicy(default="allow", denied_hosts=("a.example.org",)))


def test_processors_and_memory_are_what_it_gets_and_no_more(vendor: Modal) -> None:
    create({"resources": {"cpu": "500m", "memory": "512m"}})
    [made] = vendor.created
    assert (made["cpu"], made["memory"]) == ((500, 500), (512, 512))
    with pytest.raises(SandboxUnsupported, match="whole mebibytes"):
        create({"resources": {"memory": "1000k"}})


def test_a_snapshot_is_the_image_of_another(vendor: Modal) -> None:
    taken = create().snapshot()
    create({"image": taken})
    assert vendor.created[1]["image_id"] == taken
    with pytest.raises(
        SandboxUnsupported, match="cannot make the sandbox: Image im-none not found"
    ):
        create({"image": "im-none"})


# When it fails


def test_an_image_there_is_not_is_refused_with_the_reason(vendor: Modal) -> None:
    vendor.registry = {"known"}
    with pytest.raises(SandboxUnsupported, match=r"cannot make the image: .* not found in the"):
        create({"image": "example.org/none:1"})


def test_a_lifetime_it_does_not_have_is_refused_and_leaves_nothing(vendor: Modal) -> None:
    with pytest.raises(SandboxUnsupported, match="between 1s and 24h"):
        create(timeout_seconds=100_000)
    assert not vendor.living


def test_a_sandbox_that_never_gets_ready_is_given_up(
    vendor: Modal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "CREATE_SECONDS", 4)
    vendor.is_ready = False
    with pytest.raises(ProviderUnavailable, match="Making a Modal sandbox did not come to"):
        create()
    assert vendor.created
    assert not vendor.living


def test_a_lost_answer_leaves_one_sandbox(vendor: Modal) -> None:
    vendor.fail("SandboxCreateV2", lost=True, times=1)
    sandbox = create()
    assert vendor.living == {sandbox.handle["sandbox"]}
    assert len(vendor.created) == 1


def test_answers_that_are_all_lost_leave_none(vendor: Modal) -> None:
    vendor.fail("SandboxCreateV2", lost=True, times=OFTEN)
    with pytest.raises(ProviderUnavailable):
        create()
    assert vendor.created
    assert not vendor.living


def test_a_rate_limit_is_waited_out(vendor: Modal) -> None:
    vendor.fail(
        "ClientHello", reply=failing(Status.RESOURCE_EXHAUSTED, "slow down", later=0.1), times=2
    )
    assert provider().check() == "Modal answers and takes the token"


def test_a_rate_limit_without_an_end_is_said(vendor: Modal) -> None:
    vendor.fail("ClientHello", reply=failing(Status.RESOURCE_EXHAUSTED, "slow down"))
    with pytest.raises(ProviderUnavailable, match="takes no more requests for now: slow down"):
        provider().check()


@pytest.mark.parametrize("status", [Status.UNAVAILABLE, Status.INTERNAL, Status.UNKNOWN])
def test_the_vendors_own_failures_are_outages(vendor: Modal, status: Status) -> None:
    vendor.fail("ClientHello", reply=failing(status))
    with pytest.raises(ProviderUnavailable, match="Modal cannot be reached"):
        provider().check()


def test_a_vendor_that_is_not_there_is_an_outage_and_not_waited_for(
    vendor: Modal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would try for a minute."""
    monkeypatch.setattr(adapter, "REQUEST_SECONDS", 0.3)
    vendor.stop()
    with pytest.raises(ProviderUnavailable, match="did not come to an end"):
        provider().check()


@pytest.mark.parametrize("name", ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"])
def test_without_a_credential_the_variables_are_named(
    vendor: Modal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(modal.config, "_user_config", {})
    monkeypatch.delenv(name)
    with pytest.raises(ProviderMissing, match=rf"{name}.*modal token new"):
        provider().check()
    assert not vendor.asked


def test_the_file_of_modal_token_new_will_do(
    vendor: Modal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'modal token new, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET'."""
    mine = {"token_id": "ak-of-the-file", "token_secret": "as-of-the-file"}
    monkeypatch.setattr(modal.config, "_user_config", {modal.config._profile: mine})
    for name in vendor.variables:
        monkeypatch.delenv(name)
    create()
    assert vendor.created[0]["key"] == "ak-of-the-file"


def test_a_token_that_is_not_taken_is_said_without_it(vendor: Modal) -> None:
    vendor.keys = {"another"}
    with pytest.raises(ProviderMissing) as refused:
        provider().check()
    told = f"{refused.value.detail} {refused.value.__cause__} {refused.value.extra}"
    assert "MODAL_TOKEN_ID" in told
    assert vendor.variables["MODAL_TOKEN_ID"] not in told


def test_what_the_vendor_says_is_told_without_token_and_variables(vendor: Modal) -> None:
    sandbox = create({"environment": {"plain": {"SECRET": "hush-hush-1"}}})
    token = vendor.variables["MODAL_TOKEN_SECRET"]
    said = f"bad {token} and hush-hush-1"
    vendor.fail("TaskSetNetworkAccess", reply=failing(Status.INVALID_ARGUMENT, said))
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


def test_bytes_that_text_would_lose_arrive(vendor: Modal) -> None:
    ran = sh(create(), r"printf 'a\000b\377'; printf '\376' >&2")
    assert (ran.stdout, ran.stderr) == (b"a\0b\xff", b"\xfe")


def test_a_stream_that_is_behind_the_other_is_waited_for(vendor: Modal) -> None:
    """Each is read by a call of its own: the end of one says nothing of the other."""
    sandbox = create()
    vendor.fail("TaskExecStdioRead", delay=1, times=1)
    assert sh(sandbox, "echo late; echo early >&2").text == "late"


def test_what_a_command_leaves_running_is_not_waited_for(vendor: Modal) -> None:
    sandbox = create()
    assert sh(sandbox, "sleep 600 & echo $!").code == 0
    assert sh(sandbox, "ps -o comm= -C sleep | sort -u; kill -9 $(pidof sleep)").code == 0


def test_a_line_that_is_too_long_for_the_sdk_goes_by_a_file(vendor: Modal) -> None:
    sandbox = create()
    assert run(sandbox, "sh", "-c", "echo ${#1}", "sh", "x" * 100_000).text == "100000"
    assert run(sandbox, "sh", "-c", 'printf %s "$1"', "sh", os.fsdecode(b"\xff")).stdout == b"\xff"
    assert sh(sandbox, "ls -A /tmp").text == ""


def test_a_command_that_takes_no_stdin_ends_all_the_same(vendor: Modal) -> None:
    assert sh(create(), "exec < /dev/null; echo on", stdin=b"x" * 3_000_000).text == "on"


def test_a_command_is_not_started_twice_after_a_lost_answer(vendor: Modal) -> None:
    sandbox = create()
    vendor.fail("TaskExecStart", lost=True, times=1)
    assert sh(sandbox, "echo ran >> ran; cat ran").text == "ran"


def test_a_command_is_followed_to_its_end_after_a_cut(vendor: Modal) -> None:
    sandbox = create()
    assert while_running(sandbox, vendor.cut, "sleep 1; exit 5") == 5


def test_a_command_whose_start_is_not_answered_may_have_run(
    vendor: Modal, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = create()
    monkeypatch.setattr(modal_sdk, "REQUEST_SECONDS", 0.3)
    vendor.fail("TaskExecStart", delay=3, times=1)
    with pytest.raises(CommandLost, match="Starting a command in a Modal sandbox"):
        sh(sandbox, "true")


def test_a_sandbox_that_vanishes_under_a_command_is_lost(vendor: Modal) -> None:
    sandbox = create()
    name = sandbox.handle["sandbox"]
    error = while_running(sandbox, lambda: vendor.lose(name))
    assert isinstance(error, SandboxLost)
    assert error.detail == f"The sandbox {name} no longer exists; the command did not finish"
    assert not sandbox.is_running()


def test_the_end_of_its_lifetime_is_a_loss(vendor: Modal) -> None:
    sandbox = create()
    error = while_running(sandbox, lambda: vendor.expire(sandbox.handle["sandbox"]))
    assert isinstance(error, SandboxLost)


def test_it_cannot_be_paused_nor_given_more_time(vendor: Modal) -> None:
    sandbox = create()
    for act in (sandbox.pause, sandbox.resume, lambda: sandbox.extend(60)):
        with pytest.raises(SandboxUnsupported):
            act()
    assert sh(sandbox, "echo on").text == "on"


def test_ending_it_twice_is_fine(vendor: Modal) -> None:
    sandbox = create()
    sandbox.terminate()
    sandbox.terminate()
    assert not vendor.living


# Finding it again


def test_it_is_found_again_by_its_handle_alone(vendor: Modal) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    assert provider().attach(sandbox.handle, Manifest()).read_file("kept") == b"1"
    assert sandbox.handle == {"sandbox": vendor.created[0]["id"]}


def test_attaching_asks_nobody(vendor: Modal) -> None:
    provider().attach({"sandbox": "gone"}, Manifest())
    assert not vendor.asked


def test_only_ours_are_listed_over_all_pages(vendor: Modal) -> None:
    vendor.page = 2
    mine, other = somebody(), somebody()
    for owner in (mine, mine, mine, other):
        provider().create(Manifest(), owner=owner)
    provider(app_name="another").create(Manifest(), owner=mine)
    vendor.lose(vendor.created[0]["id"])
    owned = provider().list_owned(mine.install)
    assert {one.handle["sandbox"] for one in owned} == {made["id"] for made in vendor.created[1:3]}
    assert {(one.run, one.sandbox, one.running) for one in owned} == {
        (mine.run, mine.sandbox, True)
    }
    assert provider().list_owned(mine.install, run="another") == []
    assert provider().cleanup(mine.install) == 2
    assert vendor.living == {made["id"] for made in vendor.created[3:]}


def test_a_missing_file_is_not_there(vendor: Modal) -> None:
    with pytest.raises(NotFound):
        create().read_file("none")


def test_only_what_the_stand_in_knows_is_asked(vendor: Modal) -> None:
    """A newer SDK that asks something else is noticed here, not by its users."""
    owner = somebody()
    sandbox = provider().create(Manifest(), owner=owner)
    sh(sandbox, "cat", stdin=b"1")
    sandbox.set_network(NetworkPolicy(default="allow"))
    sandbox.snapshot()
    again = provider().attach(sandbox.handle, Manifest())
    sh(again, "true")
    provider().cleanup(owner.install)
    assert set(vendor.lines()) <= set(vendor.methods)


# Through the pipeline


@pytest.mark.django_db(transaction=True)
def test_a_governed_command_runs_there_and_is_recorded(vendor: Modal, people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    place = Environment.objects.create(
        team=people.team, name="hosted", provider="modal", options={}, manifest={}
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=place)
    here = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, here, "id -un; echo oops >&2; exit 3"))
    assert (done.state, done.exit_code, done.run.provider) == ("finished", 3, "modal")
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"root\n"
    kept = str([step.payload for step in here.trajectory.steps.all()])
    assert vendor.created[0]["id"] in kept
    assert vendor.variables["MODAL_TOKEN_SECRET"] not in kept
