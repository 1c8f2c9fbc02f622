"""Checks of a sandbox's life: made, found again, paused, listed, ended; and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from omniweb.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    ProviderError,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.capabilities import Ability, Setting, settings_asked
from sandboxes.manifest import Manifest, Resources
from sandboxes.providers import isolation
from sandboxes.providers.base import LiveSandbox, Owned, isolation_of
from sandboxes.providers.conformance import elsewhere
from sandboxes.providers.conformance.bench import (
    EVENT_SECONDS,
    LONG_SECONDS,
    Bench,
    Skip,
    run,
)
from sandboxes.providers.conformance.check import Differs, Topic, arrives, raises, same
from sandboxes.providers.isolation import Verdict

MAKING = Topic("Making a sandbox")
AGAIN = Topic("Finding it again")
INSIDE = Topic("Inside")
ENDING = Topic("Ending it")
REFUSING = Topic("What is refused")

# For a sandbox that is to end by itself.
LIFETIME_SECONDS = 10
# Asks for each setting of a manifest, so that it can be seen to be refused.
ASKING: dict[Setting, Mapping[str, Any]] = {
    Setting.IMAGE: {"image": "omniweb-conformance-no-such-image"},
    Setting.ALLOWED_HOSTS: {"network_policy": {"allowed_hosts": ["packages.example.org"]}},
    Setting.DENIED_HOSTS: {"network_policy": {"denied_hosts": ["ads.example.org"]}},
    Setting.NETWORK_OFF: {"network_policy": {"default": "deny"}},
    Setting.WORKSPACE_MOUNT: {"workspace_mount": {"source": "/srv/data", "target": "/data"}},
    Setting.SECRETS: {"environment": {"secret_refs": ["conformance"]}},
    Setting.CPU: {"resources": {"cpu": "1"}},
    Setting.MEMORY: {"resources": {"memory": "256m"}},
    Setting.GPU: {"resources": {"gpu": True}},
    Setting.LIFETIME: {"resources": {"timeout_seconds": 60}},
}
# Two programs that talk to each other over the loopback device.
LOOPBACK = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
print(socket.create_connection(server.getsockname(), 10).recv(5).decode())
"""


@MAKING.check("The provider says what it runs with")
def provider_says_what_it_is(bench: Bench) -> None:
    same("a line", bool(bench.provider.check().strip()), True)


@MAKING.check("A sandbox is made and takes a command")
def sandbox_is_made(bench: Bench) -> None:
    same("stdout", bench.run("echo", "ready").text, "ready")


@MAKING.check("Its handle is JSON and holds no secret of the options")
def handle_is_plain(bench: Bench) -> None:
    written = json.dumps(dict(bench.live.handle))
    for name in bench.provider.spec.secret_options:
        value = bench.provider.options.get(name)
        secrets = value.values() if isinstance(value, Mapping) else [value]
        for secret in filter(None, secrets):
            same(f"the option {name} in the handle", str(secret) in written, False)


@MAKING.check("Two sandboxes do not share files")
def sandboxes_are_apart(bench: Bench) -> None:
    _isolated(bench)
    name = bench.name("apart")
    bench.live.write_file(name, b"mine")
    raises("reading it in the other", NotFound, lambda: _second(bench).read_file(name))


@INSIDE.check("Programs are found, and the usual ones are there")
def usual_programs_are_there(bench: Bench) -> None:
    tools = "sh cat ls mkdir rm mv cp ln chmod head tail wc sort grep sed tr sleep test env printf"
    missing = [tool for tool in tools.split() if not bench.has(tool)]
    same("missing", missing, [])


@INSIDE.check("There is a place for temporary files")
def temporary_files_fit(bench: Bench) -> None:
    ran = bench.sh("f=$(mktemp) && echo x > $f && cat $f && rm $f")
    same("stdout", ran.text, "x")


@INSIDE.check("The null device and the zero device are there")
def devices_are_there(bench: Bench) -> None:
    same("stdout", bench.sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c").text.strip(), "3")


@INSIDE.check("Programs talk to each other over loopback", tools=("python3",))
def loopback_works(bench: Bench) -> None:
    same("stdout", bench.run("python3", "-c", LOOPBACK).text, "hello")


@INSIDE.check("What a command has left running goes on", Ability.BACKGROUND)
def background_work_goes_on(bench: Bench) -> None:
    name = bench.name("later")
    bench.sh(f"(sleep 1; echo worked > {name}) >/dev/null 2>&1 &")
    line = f"until [ -s {name} ]; do sleep 0.1; done; cat {name}"
    same("stdout", bench.sh(line, time_limit_seconds=EVENT_SECONDS).text, "worked")


@INSIDE.check("What its network policy denies does not answer from inside")
def denied_network_is_silent(bench: Bench) -> None:
    policy = bench.manifest.network_policy
    if not bench.live.denied(policy):
        raise Skip("its network is on")
    if bench.provider.options.get(isolation.OPTION) is False:
        raise Skip(f"the option {isolation.OPTION} is false: it is accepted unchecked")
    evidence = isolation_of(bench.live, policy)
    bench.evidence = evidence
    seen = "; ".join(f"{line.target}: {line.outcome}, {line.detail}" for line in evidence.lines)
    if evidence.verdict is not Verdict.PROVEN:
        raise Differs(f"isolation: expected proven, got {evidence.verdict} ({seen})")


@AGAIN.check("It is found again by its handle")
def handle_finds_it(bench: Bench) -> None:
    name = bench.name("again")
    bench.live.write_file(name, b"found")
    again = _attached(bench, bench.live)
    same("file", again.read_file(name), b"found")
    same("stdout", run(again, "cat", name).text, "found")


@AGAIN.check("Also while a command runs in it")
def handle_finds_it_busy(bench: Bench) -> None:
    name = bench.name("busy")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(arrives, bench.live, name)
        _attached(bench, bench.live).write_file(name, b"")
        running.result(EVENT_SECONDS)


@AGAIN.check("Also from another process")
def another_process_finds_it(bench: Bench) -> None:
    name = bench.name("elsewhere")
    bench.live.write_file(name, b"found")
    code, out = elsewhere.run(bench.provider, bench.live.handle, bench.manifest, ["cat", name])
    same("exit code and stdout", (code, out), (0, "found"))


@AGAIN.check("It says that it is running", Ability.STATE)
def it_says_it_runs(bench: Bench) -> None:
    same("is_running", bench.live.is_running(), True)


@AGAIN.check("It is listed with the labels it was given", Ability.LIST)
def it_is_listed(bench: Bench) -> None:
    owned = _while_busy(bench, lambda: bench.provider.list_owned(bench.owner.install))
    found = [one for one in owned if one.sandbox == bench.label]
    same("how many with its name", len(found), 1)
    same("run and running", (found[0].run, found[0].running), (bench.owner.run, True))


@AGAIN.check("What is listed can be attached", Ability.LIST)
def listed_can_be_attached(bench: Bench) -> None:
    def attach() -> str:
        [one] = [one for one in _mine(bench) if one.sandbox == bench.label]
        return run(bench.provider.attach(one.handle, bench.manifest), "echo", "attached").text

    same("stdout", _while_busy(bench, attach), "attached")


@AGAIN.check("Another run or installation does not list it", Ability.LIST)
def others_do_not_list_it(bench: Bench) -> None:
    def listed() -> list[Owned]:
        stranger = bench.provider.list_owned(f"{bench.owner.install}-other")
        return stranger + bench.provider.list_owned(
            bench.owner.install, run=f"{bench.owner.run}-other"
        )

    same("what they list", _while_busy(bench, listed), [])


@AGAIN.check("Paused it takes no command, resumed it goes on with its files", Ability.PAUSE)
def pausing_works(bench: Bench) -> None:
    live, name = bench.live, bench.name("paused")
    live.write_file(name, b"kept")
    live.pause()
    try:
        same("is_running", live.is_running(), False)
        raises("a command", Conflict, lambda: run(live, "true"))
    finally:
        live.resume()
    same("is_running", live.is_running(), True)
    same("stdout", run(live, "cat", name).text, "kept")


@AGAIN.check("Pausing and resuming twice is fine", Ability.PAUSE)
def pausing_twice_is_fine(bench: Bench) -> None:
    live = bench.live
    live.pause()
    try:
        live.pause()
    finally:
        live.resume()
    live.resume()
    same("exit code", run(live, "true").code, 0)


@ENDING.check("Ending it stops what runs in it")
def ending_stops_commands(bench: Bench) -> None:
    live, name = _second(bench), bench.name("begun")
    with ThreadPoolExecutor(1) as pool:
        line = f"echo > {name}; sleep {LONG_SECONDS}"
        running = pool.submit(run, live, "sh", "-c", line, time_limit_seconds=EVENT_SECONDS)
        arrives(live, name)
        live.terminate()
        bench.second, bench.ended = None, live
        # Whether it counts as killed or as lost, it must not end by itself nor by its limit.
        with suppress(ProviderError):
            ran = running.result()
            same("exit code and timed_out", (ran.code, ran.result.timed_out), (137, False))


@ENDING.check("Ending it twice is fine")
def ending_twice_is_fine(bench: Bench) -> None:
    live = _ended(bench)
    live.terminate()
    _attached(bench, live).terminate()


@ENDING.check("Once ended, it is not running", Ability.STATE)
def ended_is_not_running(bench: Bench) -> None:
    _isolated(bench)
    same("is_running", _ended(bench).is_running(), False)


@ENDING.check("Once ended, a command is told that it is lost", Ability.STATE)
def ended_says_it_is_lost(bench: Bench) -> None:
    _isolated(bench)
    live = _ended(bench)
    raises("a command", SandboxLost, lambda: run(live, "true"))


@ENDING.check("Once ended, no command runs in it")
def ended_runs_nothing(bench: Bench) -> None:
    _isolated(bench)
    live = _ended(bench)
    # A service may say it in its own words, like a program that cannot be run.
    with suppress(ProviderError):
        ran = run(live, "echo", "ran")
        same("exit code and stdout", (ran.code, ran.stdout), (126, b""))


@ENDING.check("Once ended, its files are lost")
def ended_has_no_files(bench: Bench) -> None:
    _isolated(bench)
    live = _ended(bench)
    raises("reading", (ProviderError, NotFound), lambda: live.read_file("anything"))
    raises("writing", ProviderError, lambda: live.write_file("anything", b""))


@ENDING.check("Once ended, it is not listed as running", Ability.LIST)
def ended_is_not_listed(bench: Bench) -> None:
    handle = _ended(bench).handle
    running = [one for one in _mine(bench) if one.running and one.handle == handle]
    same("listed", running, [])


@ENDING.check("It ends by itself when its lifetime is over", Ability.STATE)
def lifetime_ends_it(bench: Bench) -> None:
    live = _short_lived(bench)
    deadline = time.monotonic() + LIFETIME_SECONDS + EVENT_SECONDS
    while live.is_running():
        if time.monotonic() > deadline:
            raise Differs(f"still running long after its {LIFETIME_SECONDS} s")
        time.sleep(1)
    raises("a command", SandboxLost, lambda: run(live, "true"))


@ENDING.check("Cleaning up ends every sandbox of a run", Ability.LIST)
def cleanup_ends_all(bench: Bench) -> None:
    live = bench.live
    _while_busy(bench, lambda: bench.provider.cleanup(bench.owner.install, run=bench.owner.run))
    bench.forget()
    same("still listed as running", [one for one in _mine(bench) if one.running], [])
    if bench.provider.spec.execution_surface != "host":
        raises("a command", SandboxLost, lambda: run(live, "true"))


@REFUSING.check("What a manifest asks and it does not keep is refused, not ignored")
def unkept_is_refused(bench: Bench) -> None:
    enforced = bench.provider.spec.enforces
    if enforced is None:
        raise Skip("it is taken at its word")
    asked = settings_asked(bench.manifest)
    unkept = [setting for setting in Setting if setting not in enforced | set(asked)]
    if not unkept:
        raise Skip("it keeps whatever a manifest can ask")
    for setting in unkept:
        fields = {**ASKING[setting]}
        if setting in (Setting.ALLOWED_HOSTS, Setting.DENIED_HOSTS):
            default = bench.manifest.network_policy.default
            fields["network_policy"] = {**fields["network_policy"], "default": default}
        manifest = bench.manifest.merged_with(Manifest.parse(fields))
        raises(
            f"asking for {setting}",
            SandboxUnsupported,
            lambda manifest=manifest: bench.another(manifest=manifest),  # type: ignore[misc] # a default
        )


@REFUSING.check("An option it does not have is refused")
def unknown_option_is_refused(bench: Bench) -> None:
    spec = bench.provider.spec
    if not spec.options:
        raise Skip("its own code reads its options")
    given = {**bench.provider.options, "no_such_option": 1}
    raises("the option no_such_option", InvalidInput, lambda: spec.read_options(given))


def _isolated(bench: Bench) -> None:
    if bench.provider.spec.execution_surface == "host":
        raise Skip("it is this machine, whose files stay")


def _attached(bench: Bench, live: LiveSandbox) -> LiveSandbox:
    """Return a sandbox as a process gets it that knows no more than its row."""
    return bench.provider.attach(json.loads(json.dumps(dict(live.handle))), bench.manifest)


def _mine(bench: Bench) -> list[Owned]:
    return bench.provider.list_owned(bench.owner.install, run=bench.owner.run)


def _while_busy[Found](bench: Bench, act: Callable[[], Found]) -> Found:
    """Do something while a command runs: of this machine, only what has processes is listed."""
    begun = bench.name("busy")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            bench.sh,
            f"echo > {begun}; until [ ! -e {begun} ]; do sleep 0.1; done",
            time_limit_seconds=EVENT_SECONDS,
        )
        arrives(bench.live, begun)
        try:
            return act()
        finally:
            with suppress(Exception):
                bench.sh(f"rm {begun}")
            with suppress(Exception):
                running.result(EVENT_SECONDS)


def _second(bench: Bench) -> LiveSandbox:
    """Return a sandbox beside the shared one; `_ended` ends it."""
    _ = bench.live  # where that cannot be made, neither can this
    if bench.second is None:
        bench.second = bench.another()
    return bench.second


def _ended(bench: Bench) -> LiveSandbox:
    """Return a sandbox that has been ended."""
    if bench.ended is None:
        live = _second(bench)
        live.terminate()
        bench.second, bench.ended = None, live
    return bench.ended


def _short_lived(bench: Bench) -> LiveSandbox:
    """Return a new sandbox that lives for a few seconds, by the manifest or by an option."""
    spec = bench.provider.spec
    if spec.enforces is not None and Setting.LIFETIME in spec.enforces:
        resources = Manifest(resources=Resources(timeout_seconds=LIFETIME_SECONDS))
        return bench.another(manifest=bench.manifest.merged_with(resources))
    if spec.factory is not None or "timeout_seconds" not in bench.provider.options:
        raise Skip("it sets its sandboxes no lifetime")
    options = {**bench.provider.options, "timeout_seconds": LIFETIME_SECONDS}
    return bench.another(provider=type(bench.provider)(spec, options))
