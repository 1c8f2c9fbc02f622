"""E2B through its real SDK, against a stand-in that checks, keeps and fails as the vendor does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from omniweb.core.errors import (
    CommandLost,
    Conflict,
    NotFound,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.models import Environment, Profile
from sandboxes.providers import e2b_sdk
from sandboxes.providers.base import Command, LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from tests.factories import FREE_POLICY, ask, policy_use, run_ready, work
from tests.people import People
from tests.providers.hosted import hosted
from tests.providers.running import run, sh, somebody
from tests.server import ROOT
from tests.standins.e2b import E2B
from tests.standins.wire import Reply

pytestmark = pytest.mark.standin
ONLINE = {"network_policy": {"default": "allow"}}
BUSY = Reply(status=429, body={"code": 429, "message": "slow down"}, headers={"Retry-After": "0"})


@pytest.fixture
def vendor() -> Iterator[E2B]:
    """The vendor, found by the SDK for as long as the test runs."""
    with hosted("e2b") as found:
        yield found


def provider(**options: Any) -> SandboxProvider:
    """Return the provider; sandboxes are not tried from inside unless a test wants that."""
    return open_provider("e2b", {"verify_network_isolation": False} | options)


def create(fields: dict[str, Any] | None = None, **options: Any) -> LiveSandbox:
    """Return a sandbox: manifest fields, then options of the provider."""
    return provider(**options).create(Manifest.parse(fields or {}), owner=somebody())


# What it is asked for


def test_a_sandbox_carries_its_labels_its_lifetime_and_its_variables(vendor: E2B) -> None:
    owner = somebody()
    manifest = Manifest.parse({"environment": {"plain": {"GREETING": "hello"}}})
    sandbox = provider(timeout_seconds=77).create(manifest, owner=owner)
    [made] = vendor.created
    assert made["metadata"] == {
        "omniweb.install": owner.install,
        "omniweb.run": owner.run,
        "omniweb.sandbox": owner.sandbox,
    }
    assert (made["lifetime"], made["env"]) == (77, {"GREETING": "hello"})
    assert sh(sandbox, 'echo "$GREETING"').text == "hello"


def test_its_ports_stay_closed_and_it_does_not_wake_by_itself(vendor: E2B) -> None:
    create()
    [made] = vendor.created
    assert made["public"] is False
    assert made["auto_resume"] == {"enabled": False}


def test_the_working_directory_is_made_for_the_commands_user(vendor: E2B) -> None:
    sandbox = create({"working_dir": "/srv/app"})
    assert sh(sandbox, "pwd; : > file && id -un").text == "/srv/app\nuser"
    assert sh(create({"working_dir": "/home/user"}), "pwd").text == "/home/user"


def test_hosts_are_allowed_by_the_vendors_lists(vendor: E2B) -> None:
    hosts = ["packages.example.org", "*.files.example.org"]
    sandbox = create({"network_policy": {"allowed_hosts": hosts}})
    [asked] = [one for one in vendor.asked if one.line == "POST /v2/sandboxes"]
    assert asked.json["network"]["allowOut"] == hosts
    assert asked.json["network"]["denyOut"] == ["0.0.0.0/0"]
    assert "allow_internet_access" not in asked.json
    fetch = "import sys, urllib.request as u; print(u.urlopen('http://' + sys.argv[1]).read())"
    got = [
        run(sandbox, "python3", "-c", fetch, host).code
        for host in ("packages.example.org", "a.files.example.org", "other.example.org")
    ]
    assert got == [0, 0, 1]


def test_the_network_can_be_changed_while_it_runs(vendor: E2B) -> None:
    sandbox = create()
    fetch = "import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=5)"
    assert run(sandbox, "python3", "-c", fetch).code != 0
    sandbox.set_network(NetworkPolicy(default="allow"))
    assert run(sandbox, "python3", "-c", fetch).code == 0
    sandbox.set_network(NetworkPolicy(allowed_hosts=("a.example.org",)))
    assert vendor.asked[-1].json == {"allowOut": ["a.example.org"], "denyOut": ["0.0.0.0/0"]}
    with pytest.raises(SandboxUnsupported, match="blocking named hosts"):
        sandbox.set_network(NetworkPolicy(default="allow", denied_hosts=("a.example.org",)))


def test_a_sandbox_that_reaches_more_than_its_hosts_is_destroyed_and_refused(vendor: E2B) -> None:
    vendor.reaches_internet = True
    fields = {"network_policy": {"allowed_hosts": ["a.example.org"]}}
    with pytest.raises(SandboxUnsupported, match="still reached the internet"):
        create(fields, verify_network_isolation=True)
    assert not vendor.living


def test_a_firewall_that_takes_connections_and_answers_none_isolates(vendor: E2B) -> None:
    sandbox = create(verify_network_isolation=True)
    connect = "import socket; socket.create_connection(('1.1.1.1', 80), 5); print('taken')"
    assert run(sandbox, "python3", "-c", connect).text == "taken"


def test_what_it_does_not_keep_is_refused_before_it_is_asked(vendor: E2B) -> None:
    with pytest.raises(SandboxUnsupported, match="does not enforce a CPU limit"):
        create({"resources": {"cpu": "2"}})
    assert not vendor.asked


def test_a_plain_name_is_a_templates(vendor: E2B) -> None:
    vendor.templates["mine"] = "mine"
    create({"image": "mine"}, template="base")
    create(template="mine")
    assert [made["image"] for made in vendor.created] == ["mine", "mine"]
    assert not vendor.lines("templates")


def test_an_image_of_a_registry_becomes_a_template_once(vendor: E2B) -> None:
    for _ in range(2):
        create({"image": "python:3.12-slim"})
    assert [made["image"] for made in vendor.created] == ["python:3.12-slim"] * 2
    assert len(vendor.lines("POST /v3/templates")) == 1


def test_a_template_of_an_images_name_does_not_stand_in_for_it(vendor: E2B) -> None:
    vendor.templates["python:3.12-slim"] = "of somebody else"
    create({"image": "python:3.12-slim"})
    assert [made["image"] for made in vendor.created] == ["python:3.12-slim"]


def test_an_image_that_cannot_be_built_is_refused_with_the_reason(vendor: E2B) -> None:
    vendor.build_status = "error"
    with pytest.raises(SandboxUnsupported, match="the image was not found in its registry"):
        create({"image": "example.org/none:1"})


def test_a_template_there_is_not_is_refused_by_name(vendor: E2B) -> None:
    with pytest.raises(SandboxUnsupported, match="template 'none' not found"):
        create(template="none")


def test_a_lifetime_over_what_the_account_may_is_refused(vendor: E2B) -> None:
    with pytest.raises(SandboxUnsupported, match="cannot be greater than 1 hours"):
        create(timeout_seconds=7200)


# When it fails


def test_a_lost_answer_leaves_one_sandbox(vendor: E2B) -> None:
    vendor.fail("POST /v2/sandboxes$", lost=True, times=1)
    sandbox = create()
    assert vendor.living == {sandbox.handle["sandbox"]}
    assert len(vendor.lines("POST /v2/sandboxes$")) == 2


def test_answers_that_are_all_lost_leave_none(vendor: E2B) -> None:
    vendor.fail("POST /v2/sandboxes$", lost=True)
    with pytest.raises(ProviderUnavailable):
        create()
    assert len(vendor.created) == 1
    assert not vendor.living


def test_a_sandbox_that_cannot_be_prepared_is_ended(vendor: E2B) -> None:
    broken = Reply(status=500, body={"code": "internal", "message": "no shell"})
    vendor.fail("process.Process/Start", reply=broken)
    with pytest.raises(ProviderError):
        create()
    assert vendor.created
    assert not vendor.living


def test_a_rate_limit_is_waited_out(vendor: E2B) -> None:
    vendor.fail("POST /v2/sandboxes$", reply=BUSY, times=2)
    create()
    assert len(vendor.living) == 1


def test_a_rate_limit_without_end_is_an_outage(vendor: E2B) -> None:
    vendor.fail("POST /v2/sandboxes$", reply=BUSY)
    with pytest.raises(ProviderUnavailable, match="takes no more requests for now"):
        create()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_the_vendors_own_failures_are_outages(vendor: E2B, status: int) -> None:
    broken = Reply(status=status, body={"code": status, "message": "broken"})
    vendor.fail("GET /v2/sandboxes", reply=broken)
    with pytest.raises(ProviderUnavailable, match="E2B"):
        provider().check()


def test_a_vendor_that_is_not_there_is_an_outage(vendor: E2B) -> None:
    vendor.stop()
    with pytest.raises(ProviderUnavailable, match="E2B cannot be reached"):
        provider().check()


def test_a_vendor_that_does_not_answer_is_an_outage(
    vendor: E2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e2b_sdk, "REQUEST_SECONDS", 0.3)
    vendor.fail("GET /v2/sandboxes", delay=2)
    with pytest.raises(ProviderUnavailable, match="E2B cannot be reached"):
        provider().check()


def test_without_a_key_the_variable_is_named(vendor: E2B, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    with pytest.raises(ProviderMissing, match="set E2B_API_KEY, or the option api_key"):
        provider().check()
    assert not vendor.asked


def test_a_key_that_is_not_taken_is_said_without_it(vendor: E2B) -> None:
    vendor.keys = {"another"}
    with pytest.raises(ProviderMissing) as refused:
        provider().check()
    assert "E2B_API_KEY" in refused.value.detail
    told = f"{refused.value.detail} {refused.value.__cause__} {refused.value.extra}"
    assert vendor.variables["E2B_API_KEY"] not in told


def test_what_the_vendor_says_is_told_without_key_and_variables(vendor: E2B) -> None:
    sandbox = create({"environment": {"plain": {"TOKEN": "hush-hush-1"}}})
    key = vendor.variables["E2B_API_KEY"]
    said = Reply(status=400, body={"code": 400, "message": f"bad {key} and hush-hush-1"})
    vendor.fail("PUT /sandboxes", reply=said)
    with pytest.raises(SandboxUnsupported) as refused:
        sandbox.set_network(NetworkPolicy())
    assert refused.value.detail == "E2B refused: 400: bad ******** and ********"


def test_debug_in_the_environment_does_not_pretend(
    vendor: E2B, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK makes and ends nothing with it, and says that it did."""
    monkeypatch.setenv("E2B_DEBUG", "true")
    create().terminate()
    assert len(vendor.created) == 1
    assert not vendor.living


# Commands


def while_running(sandbox: LiveSandbox, act: Callable[[], object]) -> Exception:
    """Return what a command is ended by when something happens to it."""
    begun = threading.Event()

    def later() -> None:
        begun.wait(20)
        act()

    acting = threading.Thread(target=later)
    acting.start()
    try:
        sandbox.execute(
            Command(argv=("sh", "-c", "echo on; sleep 60")),
            on_output=lambda stream, data: begun.set(),
            cancelled=lambda: False,
        )
    except Exception as error:  # noqa: BLE001 -- it is what is looked at
        return error
    finally:
        acting.join()
    raise AssertionError("the command ended by itself")


def test_a_sandbox_that_vanishes_under_a_command_is_lost(vendor: E2B) -> None:
    sandbox = create()
    name = sandbox.handle["sandbox"]
    error = while_running(sandbox, lambda: vendor.lose(name))
    assert isinstance(error, SandboxLost)
    assert error.detail == f"The sandbox {name} no longer exists; the command did not finish"
    assert not sandbox.is_running()
    with pytest.raises(SandboxLost):
        sh(sandbox, "true")


def test_what_starts_a_command_is_not_sent_again(vendor: E2B) -> None:
    sandbox = create()
    before = len(vendor.lines("process.Process/Start"))
    vendor.fail("process.Process/Start", reply=Reply(status=502, body={"message": "bad"}), times=1)
    with pytest.raises(CommandLost):
        sh(sandbox, "echo ran >> ran")
    assert len(vendor.lines("process.Process/Start")) == before + 1
    assert sh(sandbox, "cat ran").code == 1


def test_a_stream_that_is_cut_leaves_the_command_in_doubt(vendor: E2B) -> None:
    sandbox = create()
    assert isinstance(while_running(sandbox, vendor.cut), CommandLost)
    assert sandbox.is_running()


def test_a_sandbox_that_is_paused_under_a_command_leaves_it_in_doubt(vendor: E2B) -> None:
    sandbox = create()
    error = while_running(sandbox, sandbox.pause)
    assert isinstance(error, CommandLost)
    assert "paused while a command ran" in error.detail


def test_the_end_of_its_lifetime_is_a_loss(vendor: E2B) -> None:
    sandbox = create(timeout_seconds=60)
    error = while_running(sandbox, lambda: sandbox.extend(1))
    assert isinstance(error, SandboxLost)
    assert not vendor.living


def test_it_can_be_given_more_time(vendor: E2B) -> None:
    sandbox = create(timeout_seconds=60)
    [known] = vendor.sandboxes.values()
    before = known.end_at
    sandbox.extend(600)
    assert (known.end_at - before).total_seconds() > 500
    with pytest.raises(SandboxUnsupported, match="cannot be greater"):
        sandbox.extend(7200)


def test_a_paused_sandbox_refuses_commands_and_is_not_woken_by_them(vendor: E2B) -> None:
    sandbox = create()
    sandbox.pause()
    sandbox.pause()
    assert not sandbox.is_running()
    with pytest.raises(Conflict, match="is paused; resume it first"):
        sh(sandbox, "true")
    assert not vendor.lines("connect")


def test_a_resumed_sandbox_has_its_files_and_goes_on(vendor: E2B) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    sandbox.pause()
    sandbox.resume()
    sandbox.resume()
    assert sandbox.is_running()
    assert sandbox.read_file("kept") == b"1"


def test_one_paused_behind_our_back_is_not_called_lost(vendor: E2B) -> None:
    sandbox = create()
    for known in vendor.sandboxes.values():
        known.state = "paused"
    with pytest.raises(Conflict, match="is paused"):
        sh(sandbox, "true")


def test_a_signals_death_without_a_word_is_137(vendor: E2B) -> None:
    """envd says -1 for it, and nothing else."""
    sandbox = create()
    assert sh(sandbox, "kill -KILL $PPID").code == 137
    assert sh(sandbox, "echo still here").text == "still here"


def test_arguments_longer_than_one_may_be_arrive(vendor: E2B) -> None:
    sandbox = create()
    words = ["x" * 100_000 for _ in range(8)]
    assert run(sandbox, "sh", "-c", 'echo "$#"; echo "${#8}"', "sh", *words).text == "8\n100000"
    assert "omniweb" not in sh(sandbox, "ls -a /tmp").text


def test_nothing_of_a_commands_stdin_stays(vendor: E2B) -> None:
    sandbox = create()
    assert run(sandbox, "cat", stdin=b"for this command").text == "for this command"
    assert "omniweb" not in sh(sandbox, "ls -a /tmp").text


def test_a_mark_of_a_commands_own_ends_nothing(vendor: E2B) -> None:
    line = 'printf "%s 7\\n" "$OMNIWEB_COMMAND" >&2; echo more; exit 3'
    ran = sh(create(), line)
    assert (ran.code, ran.text) == (3, "more")
    assert ran.stderr.endswith(b" 7\n")


# Finding it again


def test_it_is_found_again_by_its_handle_alone(vendor: E2B) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    [known] = vendor.sandboxes.values()
    assert sandbox.handle == {"sandbox": known.id}
    before = known.end_at
    again = provider().attach(sandbox.handle, Manifest())
    assert again.read_file("kept") == b"1"
    assert known.end_at == before


def test_attaching_asks_nobody(vendor: E2B) -> None:
    provider().attach({"sandbox": "gone"}, Manifest())
    assert not vendor.asked


def test_only_ours_are_listed_over_all_pages(vendor: E2B) -> None:
    vendor.page = 2
    mine, other = somebody(), somebody()
    for owner in (mine, mine, mine, other):
        provider().create(Manifest(), owner=owner)
    provider().attach({"sandbox": vendor.created[0]["id"]}, Manifest()).pause()
    owned = provider().list_owned(mine.install)
    assert {one.handle["sandbox"] for one in owned} == {made["id"] for made in vendor.created[:3]}
    assert {(one.run, one.sandbox) for one in owned} == {(mine.run, mine.sandbox)}
    assert sorted(one.running for one in owned) == [False, True, True]
    assert provider().list_owned(mine.install, run="another") == []


def test_cleaning_up_leaves_what_belongs_to_others(vendor: E2B) -> None:
    mine, other = somebody(), somebody()
    for owner in (mine, mine, other):
        provider().create(Manifest(), owner=owner)
    assert provider().cleanup(mine.install) == 2
    assert vendor.living == {vendor.created[2]["id"]}


def test_a_snapshot_is_a_template_of_the_next_one(vendor: E2B) -> None:
    name = create().snapshot()
    create({"image": name})
    assert len(vendor.created) == 2


def test_a_missing_file_is_not_there(vendor: E2B) -> None:
    with pytest.raises(NotFound):
        create().read_file("none")


FORKED = """
import os, signal
from omniweb.core.errors import OmniWebError
from sandboxes.providers.registry import open_provider
provider = open_provider("e2b", {})
print(provider.check(), flush=True)
child = os.fork()
if not child:
    signal.alarm(20)
    try:
        provider.check()
    except OmniWebError as error:
        print(error.detail, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_fork_after_its_first_use_is_refused_and_does_not_hang(vendor: E2B) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[0] == "E2B answers and takes the key"
    assert "before this process was forked" in done.stdout.splitlines()[1]


# Through the pipeline


@pytest.mark.django_db(transaction=True)
def test_a_governed_command_runs_there_and_is_recorded(vendor: E2B, people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    place = Environment.objects.create(
        team=people.team, name="hosted", provider="e2b", manifest=ONLINE
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=place)
    here = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, here, "id -un; echo oops >&2; exit 3"))
    assert (done.state, done.exit_code, done.run.provider) == ("finished", 3, "e2b")
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"user\n"
    kept = str([step.payload for step in here.trajectory.steps.all()])
    [known] = vendor.sandboxes.values()
    assert known.id in kept
    assert known.token not in kept
    assert vendor.variables["E2B_API_KEY"] not in kept
