"""Daytona through its real SDK, against a stand-in that checks, keeps and fails as the vendor does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
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
from sandboxes.adapters import daytona as adapter
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.models import Environment, Profile
from sandboxes.providers import daytona_sdk
from sandboxes.providers.base import Command, LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider
from sandboxes.providers.remote import Spelt
from tests.factories import FREE_POLICY, ask, policy_use, run_ready, work
from tests.people import People
from tests.providers.hosted import hosted
from tests.providers.running import run, sh, somebody
from tests.standins.daytona import Daytona
from tests.standins.wire import Reply

pytestmark = pytest.mark.standin
CREATE = "POST /api/sandbox$"
LIST = "GET /api/sandbox$"


def failing(status: int, message: str = "broken", **headers: str) -> Reply:
    """Return an answer that says no."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body={"statusCode": status, "message": message}, headers=named)


@pytest.fixture
def vendor() -> Iterator[Daytona]:
    """The vendor, found by the SDK for as long as the test runs."""
    with hosted("daytona") as found:
        yield found


def provider(**options: Any) -> SandboxProvider:
    """Return the provider; sandboxes are not tried from inside unless a test wants that."""
    return open_provider("daytona", {"verify_network_isolation": False} | options)


def create(fields: dict[str, Any] | None = None, **options: Any) -> LiveSandbox:
    """Return a sandbox: manifest fields, then options of the provider."""
    return provider(**options).create(Manifest.parse(fields or {}), owner=somebody())


# What it is asked for


def test_a_sandbox_carries_its_labels_and_its_variables(vendor: Daytona) -> None:
    owner = somebody()
    manifest = Manifest.parse({"environment": {"plain": {"GREETING": "hello"}}})
    sandbox = provider().create(manifest, owner=owner)
    [made] = vendor.created
    assert made["labels"] == {
        "omniweb.install": owner.install,
        "omniweb.run": owner.run,
        "omniweb.sandbox": owner.sandbox,
        # The SDK's own.
        "code-toolbox-language": "python",
    }
    assert made["env"] == {"GREETING": "hello"}
    assert sh(sandbox, 'echo "$GREETING"').text == "hello"


def test_it_ends_with_us_at_the_latest_after_a_day(vendor: Daytona) -> None:
    """Without an end of its own, it would stop after 15 quiet minutes of a long command."""
    create()
    [made] = vendor.created
    assert (made["ephemeral"], made["stops_after"], made["minutes"]) == (True, 0, 1440)
    assert made["public"] is False


def test_it_is_made_where_the_options_say(vendor: Daytona) -> None:
    create(target="eu", api_url=f"{vendor.url}/api", image="debian:13")
    [made] = vendor.created
    assert (made["target"], made["image"]) == ("eu", "debian:13")


def test_files_of_the_working_directory_are_not_believed(
    vendor: Daytona, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK reads what it is not given from `.env`."""
    (tmp_path / ".env").write_text("DAYTONA_TARGET=elsewhere\nDAYTONA_API_KEY=of-another\n")
    monkeypatch.chdir(tmp_path)
    create()
    [made] = vendor.created
    assert (made["target"], made["key"]) == (None, vendor.variables["DAYTONA_API_KEY"])


def test_no_socket_for_events_is_kept(vendor: Daytona) -> None:
    create()
    assert not vendor.lines("socket.io")


def test_processors_and_memory_are_limited_in_whole_numbers(vendor: Daytona) -> None:
    create({"resources": {"cpu": "2", "memory": "4g"}})
    [made] = vendor.created
    assert (made["cpu"], made["memory"]) == (2, 4)
    with pytest.raises(SandboxUnsupported, match=r"whole processors only: write 1 or 2, not 0\.5"):
        create({"resources": {"cpu": "0.5"}})
    with pytest.raises(SandboxUnsupported, match="whole gibibytes: write 1g, not 512m"):
        create({"resources": {"memory": "512m"}})
    assert len(vendor.created) == 1


def test_hosts_are_allowed_by_the_vendors_list(vendor: Daytona) -> None:
    hosts = ["packages.example.org", "*.files.example.org"]
    sandbox = create({"network_policy": {"allowed_hosts": hosts}})
    [asked] = [one for one in vendor.asked if one.line == "POST /api/sandbox"]
    assert asked.json["domainAllowList"] == "packages.example.org,*.files.example.org"
    assert asked.json["networkBlockAll"] is False
    fetch = "import sys, urllib.request as u; print(u.urlopen('http://' + sys.argv[1]).read())"
    got = [
        run(sandbox, "python3", "-c", fetch, host).code
        for host in ("packages.example.org", "a.files.example.org", "other.example.org")
    ]
    assert got == [0, 0, 1]


def test_the_network_can_be_changed_while_it_runs(vendor: Daytona) -> None:
    sandbox = create()
    fetch = "import urllib.request as u; u.urlopen('http://1.1.1.1', timeout=5)"
    assert run(sandbox, "python3", "-c", fetch).code != 0
    sandbox.set_network(NetworkPolicy(default="allow"))
    assert run(sandbox, "python3", "-c", fetch).code == 0
    sandbox.set_network(NetworkPolicy(allowed_hosts=("a.example.org",)))
    assert vendor.asked[-1].json == {"networkBlockAll": False, "domainAllowList": "a.example.org"}
    with pytest.raises(SandboxUnsupported, match="blocking named hosts"):
        sandbox.set_network(NetworkPolicy(default="allow", denied_hosts=("a.example.org",)))


def test_a_sandbox_that_reaches_more_than_its_hosts_is_destroyed_and_refused(
    vendor: Daytona,
) -> None:
    """On some plans the organisation's own list wins over a sandbox's."""
    vendor.reaches_internet = True
    fields = {"network_policy": {"allowed_hosts": ["a.example.org"]}}
    with pytest.raises(SandboxUnsupported, match="still reached the internet"):
        create(fields, verify_network_isolation=True)
    assert not vendor.living


def test_what_it_does_not_keep_is_refused_before_it_is_asked(vendor: Daytona) -> None:
    with pytest.raises(SandboxUnsupported, match="does not enforce a GPU"):
        create({"resources": {"gpu": True}})
    assert not vendor.asked


# When it fails


def test_making_one_sets_no_alarm_and_interrupts_no_thread(
    vendor: Daytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK keeps its time limits with SIGALRM, which belongs to the whole process."""
    set_off: list[Any] = []
    monkeypatch.setattr(signal, "alarm", set_off.append)
    monkeypatch.setattr(signal, "signal", lambda *handler: set_off.append(handler))
    monkeypatch.setattr(threading, "Timer", lambda *timer: set_off.append(timer))
    sandbox = create()
    sandbox.pause()
    sandbox.resume()
    sandbox.terminate()
    assert set_off == []


def test_an_image_that_cannot_be_had_is_refused_and_leaves_nothing(vendor: Daytona) -> None:
    vendor.comes_to = "build_failed"
    with pytest.raises(SandboxUnsupported, match="the image could not be pulled"):
        create()
    assert len(vendor.created) == 1
    assert not vendor.living


def test_a_sandbox_that_never_gets_ready_is_given_up(
    vendor: Daytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "CREATE_SECONDS", 0.5)
    vendor.looks = 10**9
    with pytest.raises(ProviderUnavailable, match="Making a Daytona sandbox did not come to"):
        create()
    assert not vendor.living


def test_a_lost_answer_leaves_one_sandbox(vendor: Daytona) -> None:
    vendor.fail(CREATE, lost=True, times=1)
    sandbox = create()
    assert vendor.living == {sandbox.handle["sandbox"]}
    assert len(vendor.created) == 1


def test_a_sandbox_that_cannot_be_prepared_is_ended(vendor: Daytona) -> None:
    vendor.fail("process/session", reply=failing(500))
    with pytest.raises(ProviderError):
        create()
    assert vendor.created
    assert not vendor.living


def test_a_working_directory_that_cannot_be_made_is_refused(vendor: Daytona) -> None:
    with pytest.raises(SandboxUnsupported, match="cannot work in /proc/none"):
        create({"working_dir": "/proc/none"})
    assert not vendor.living


def test_a_rate_limit_is_waited_out(vendor: Daytona) -> None:
    vendor.fail(CREATE, reply=failing(429, "slow down", Retry_After="0"), times=2)
    create()
    assert len(vendor.living) == 1


def test_a_rate_limit_without_end_is_an_outage(vendor: Daytona) -> None:
    vendor.fail(LIST, reply=failing(429, "slow down", Retry_After="0"))
    with pytest.raises(ProviderUnavailable, match="takes no more requests for now"):
        provider().check()
    assert len(vendor.lines(LIST)) == 3


@pytest.mark.parametrize("status", [500, 502, 503])
def test_the_vendors_own_failures_are_outages(vendor: Daytona, status: int) -> None:
    vendor.fail(LIST, reply=failing(status))
    with pytest.raises(ProviderUnavailable, match="Daytona cannot be reached"):
        provider().check()


def test_a_vendor_that_is_not_there_is_an_outage(vendor: Daytona) -> None:
    vendor.stop()
    with pytest.raises(ProviderUnavailable, match="Daytona cannot be reached"):
        provider().check()


def test_a_vendor_that_does_not_answer_is_an_outage(
    vendor: Daytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "REQUEST_SECONDS", 0.3)
    vendor.fail(LIST, delay=3)
    with pytest.raises(ProviderUnavailable, match="Daytona cannot be reached"):
        provider().check()


def test_without_a_key_the_variable_is_named(
    vendor: Daytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    with pytest.raises(ProviderMissing, match="set DAYTONA_API_KEY, or the option api_key"):
        provider().check()
    assert not vendor.asked


def test_a_key_that_is_not_taken_is_said_without_it(vendor: Daytona) -> None:
    vendor.keys = {"another"}
    with pytest.raises(ProviderMissing) as refused:
        provider().check()
    told = f"{refused.value.detail} {refused.value.__cause__} {refused.value.extra}"
    assert "DAYTONA_API_KEY" in told
    assert vendor.variables["DAYTONA_API_KEY"] not in told


def test_what_the_vendor_says_is_told_without_key_and_variables(vendor: Daytona) -> None:
    sandbox = create({"environment": {"plain": {"TOKEN": "hush-hush-1"}}})
    key = vendor.variables["DAYTONA_API_KEY"]
    vendor.fail("network-settings", reply=failing(400, f"bad {key} and hush-hush-1"))
    with pytest.raises(SandboxUnsupported) as refused:
        sandbox.set_network(NetworkPolicy())
    assert "bad ******** and ********" in refused.value.detail


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


def test_a_command_is_not_started_twice_after_a_lost_answer(vendor: Daytona) -> None:
    """Left to itself, the SDK would send it again."""
    sandbox = create()
    vendor.fail("/exec$", lost=True, times=1)
    with pytest.raises(CommandLost):
        sh(sandbox, "echo ran >> ran")
    assert sh(sandbox, "until [ -e ran ]; do sleep 0.1; done; cat ran").text == "ran"


def test_what_comes_before_a_command_may_be_asked_for_again(vendor: Daytona) -> None:
    sandbox = create()
    vendor.fail("process/session$", lost=True, times=1)
    assert sh(sandbox, "echo hi").text == "hi"


def test_bytes_that_a_log_would_lose_arrive(vendor: Daytona) -> None:
    """Logs of sessions hold lines of text: no zero bytes, and always a line break at the end."""
    sandbox = create()
    ran = sh(sandbox, r"printf 'a\000b\377\001\001\001c'; printf '\002\002\002' >&2")
    assert (ran.stdout, ran.stderr) == (b"a\0b\xff\x01\x01\x01c", b"\x02\x02\x02")


def test_a_session_goes_with_its_command(vendor: Daytona) -> None:
    sandbox = create()
    sh(sandbox, "true")
    sh(sandbox, "sleep 60", time_limit_seconds=0.5)
    [known] = vendor.sandboxes.values()
    assert known.sessions == {}
    assert "omniweb" not in sh(sandbox, "ls -a /tmp | grep -v session").text


def test_what_a_command_leaves_running_goes_on(vendor: Daytona) -> None:
    sandbox = create()
    assert sh(sandbox, "(sleep 1; echo late > late; sleep 60) & echo done").text == "done"
    assert sh(sandbox, "until [ -e late ]; do sleep 0.1; done; cat late").text == "late"


def test_a_sandbox_that_vanishes_under_a_command_is_lost(vendor: Daytona) -> None:
    sandbox = create()
    name = sandbox.handle["sandbox"]
    error = while_running(sandbox, lambda: vendor.lose(name))
    assert isinstance(error, SandboxLost)
    assert error.detail == f"The sandbox {name[:]} no longer exists; the command did not finish"
    assert not sandbox.is_running()
    with pytest.raises(SandboxLost):
        sh(sandbox, "true")


def test_a_log_that_is_cut_leaves_the_command_in_doubt(vendor: Daytona) -> None:
    sandbox = create()
    assert isinstance(while_running(sandbox, vendor.cut), CommandLost)
    assert sandbox.is_running()


def test_an_end_that_is_never_told_leaves_the_command_in_doubt(
    vendor: Daytona, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = create()
    monkeypatch.setattr(daytona_sdk, "CODE_SECONDS", 0.3)
    vendor.fail("/command/command$", reply=Reply(body={"id": "command", "command": ""}))
    with pytest.raises(CommandLost, match="does not tell how the command ended"):
        sh(sandbox, "true")


def test_a_sandbox_that_is_paused_under_a_command_leaves_it_in_doubt(vendor: Daytona) -> None:
    sandbox = create()
    error = while_running(sandbox, sandbox.pause)
    assert isinstance(error, CommandLost)
    assert "paused while a command ran" in error.detail


def test_a_paused_sandbox_refuses_commands_until_it_is_resumed(vendor: Daytona) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    sandbox.pause()
    sandbox.pause()
    assert not sandbox.is_running()
    with pytest.raises(Conflict, match="is paused; resume it first"):
        sh(sandbox, "true")
    sandbox.resume()
    sandbox.resume()
    assert sandbox.read_file("kept") == b"1"


def test_a_class_of_sandboxes_that_cannot_be_paused_says_so(vendor: Daytona) -> None:
    vendor.can_pause = False
    sandbox = create()
    with pytest.raises(SandboxUnsupported, match="of this class cannot be paused"):
        sandbox.pause()
    assert sh(sandbox, "echo on").text == "on"


def test_it_can_be_given_more_time(vendor: Daytona) -> None:
    sandbox = create()
    sandbox.extend(90)
    [known] = vendor.sandboxes.values()
    assert known.wanted["ttlMinutes"] == 2


def test_arguments_longer_than_one_may_be_arrive(vendor: Daytona) -> None:
    words = ["x" * 100_000 for _ in range(8)]
    ran = run(create(), "sh", "-c", 'echo "$#"; echo "${#8}"', "sh", *words)
    assert ran.text == "8\n100000"


def test_lines_are_read_in_whatever_pieces_they_come() -> None:
    spelt = Spelt()
    read = [
        data for text in (":YW", "I=\n:Yw==", "\nnoise\n:?\n.", "\n") for data in spelt.feed(text)
    ]
    assert read[:2] == [b"ab", b"c"]
    assert spelt.is_over


# Finding it again


def test_it_is_found_again_by_its_handle_alone(vendor: Daytona) -> None:
    sandbox = create()
    sandbox.write_file("kept", b"1")
    again = provider().attach(sandbox.handle, Manifest())
    assert again.read_file("kept") == b"1"
    assert sandbox.handle == {"sandbox": vendor.created[0]["id"]}


def test_attaching_asks_nobody(vendor: Daytona) -> None:
    provider().attach({"sandbox": "gone"}, Manifest())
    assert not vendor.asked


def test_only_ours_are_listed_over_all_pages(vendor: Daytona) -> None:
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


def test_cleaning_up_leaves_what_belongs_to_others(vendor: Daytona) -> None:
    mine, other = somebody(), somebody()
    for owner in (mine, mine, other):
        provider().create(Manifest(), owner=owner)
    assert provider().cleanup(mine.install) == 2
    assert vendor.living == {vendor.created[2]["id"]}


def test_a_snapshot_is_the_image_of_the_next_one(vendor: Daytona) -> None:
    name = create().snapshot()
    create({"image": name})
    assert vendor.created[1]["image"] == name


def test_a_missing_file_is_not_there(vendor: Daytona) -> None:
    with pytest.raises(NotFound):
        create().read_file("none")


# Through the pipeline


@pytest.mark.django_db(transaction=True)
def test_a_governed_command_runs_there_and_is_recorded(vendor: Daytona, people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    place = Environment.objects.create(
        team=people.team, name="hosted", provider="daytona", options={}, manifest={}
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=place)
    here = run_ready(people.agent, people.approver)
    done = work(ask(people.agent, here, "id -un; echo oops >&2; exit 3"))
    assert (done.state, done.exit_code, done.run.provider) == ("finished", 3, "daytona")
    assert done.stdout is not None
    assert bytes(done.stdout.data) == b"root\n"
    kept = str([step.payload for step in here.trajectory.steps.all()])
    assert vendor.created[0]["id"] in kept
    assert vendor.variables["DAYTONA_API_KEY"] not in kept
