"""A provider of one's own: the example of docs/own-provider.md, run from the page as it stands."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from omniweb.core.errors import InvalidInput, SandboxLost, SandboxUnsupported
from sandboxes import checks
from sandboxes.adapters.none import NoneProvider
from sandboxes.live import _opened
from sandboxes.manifest import Manifest
from sandboxes.models import Profile, RunState
from sandboxes.providers import conformance, plugins, registry
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.conformance import Outcome
from sandboxes.providers.registry import (
    check_environment,
    open_provider,
    provider_spec,
    register_sandbox_provider,
    satisfies_required_sandbox,
)
from sandboxes.services.environments import environment_create
from sandboxes.services.reconcile import reconcile, sandboxes_compare
from sandboxes.services.runs import run_end, run_finish
from tests.factories import run_again, run_ready
from tests.people import People, browser_for
from tests.providers.running import Ran, run, sh, somebody
from tests.server import ROOT, Server

PAGE = (ROOT / "docs" / "own-provider.md").read_text()
MODULE = "omniweb_bubblewrap"


def block(language: str) -> str:
    """Return the first block of the page in a language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found, f"the page has no {language}"
    return found[1]


def usable() -> str:
    """Say why bubblewrap cannot be used here; empty when it can."""
    if not shutil.which("bwrap"):
        return "bubblewrap is not installed"
    tried = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return f"bubblewrap does not work here: {done.stderr}" if done.returncode else ""


runs = pytest.mark.skipif(bool(usable()), reason=usable())


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards which providers were registered and which failed."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    yield
    plugins.failures.clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: None) -> Iterator[Path]:
    """The page's package, installed in a folder of the Python path."""
    installed = tmp_path / "site"
    about = installed / "omniweb_bubblewrap-0.1.0.dist-info"
    about.mkdir(parents=True)
    (installed / f"{MODULE}.py").write_text(block("python"))
    project = tomllib.loads(block("toml"))["project"]
    about.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    about.joinpath("entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(installed))
    yield installed
    sys.modules.pop(MODULE, None)


@pytest.fixture
def wrapped(package: Path, tmp_path: Path) -> SandboxProvider:
    """The page's provider, loaded from its package."""
    plugins.load([])
    assert not plugins.failures
    return open_provider("bubblewrap", {"folder": str(tmp_path / "sandboxes")})


@pytest.fixture
def sandbox(wrapped: SandboxProvider) -> LiveSandbox:
    """A sandbox of the page's provider."""
    return wrapped.create(Manifest.parse({"environment": {"plain": {"A": "1"}}}), owner=somebody())


@runs
def test_its_commands_run_apart_from_this_machine(sandbox: LiveSandbox) -> None:
    assert sh(sandbox, 'echo "$A $B"; cat', env={"B": "2"}, stdin=b"in").text == "1 2\nin"
    assert run(sandbox, "pwd").text == "/workspace"
    assert int(sh(sandbox, "ls -d /proc/[0-9]* | wc -l").text) < 9
    assert sh(sandbox, "ls /root /home /etc/passwd").code != 0
    assert sh(sandbox, "echo out; echo err >&2; exit 3").code == 3
    assert run(sandbox, "no-such-program").code == 127
    assert sh(sandbox, "true", cwd="not/there").code == 127


@runs
def test_it_keeps_the_network_off_and_lets_it_on(wrapped: SandboxProvider) -> None:
    def devices(policy: str) -> Ran:
        manifest = Manifest.parse({"network_policy": {"default": policy}})
        live = wrapped.create(manifest, owner=somebody())
        return sh(live, "tail -n +3 /proc/net/dev | cut -d: -f1")

    assert devices("deny").text.split() == ["lo"]
    assert set(devices("allow").text.split()) >= {"lo"}


@runs
def test_it_keeps_the_contract_as_the_kit_checks_it(wrapped: SandboxProvider) -> None:
    results = list(conformance.run(wrapped, Manifest(), somebody()))
    failed = {one.name: one.reason for one in results if one.outcome is Outcome.FAILED}
    assert failed == {}
    # What its SPEC does not claim, and a lifetime, which it does not set.
    skipped = {one.name for one in results if one.outcome is Outcome.SKIPPED}
    assert skipped == {
        "pausing_works",
        "pausing_twice_is_fine",
        "lifetime_ends_it",
        "background_work_goes_on",
    }


@runs
def test_its_time_limit_ends_everything(sandbox: LiveSandbox) -> None:
    ran = sh(sandbox, "(setsid sleep 60 &) ; echo on; sleep 60", time_limit_seconds=1)
    assert (ran.code, ran.result.timed_out, ran.text) == (137, True, "on")
    assert sh(sandbox, "true").code == 0


@runs
def test_its_files_stay_in_and_come_back(sandbox: LiveSandbox) -> None:
    sandbox.write_file("deep/er/file", bytes(range(256)))
    assert sandbox.read_file("/workspace/deep/er/file") == bytes(range(256))
    assert [entry.path for entry in sandbox.list_files("deep")] == ["/workspace/deep/er"]
    sh(sandbox, "ln -s /etc/passwd link")
    for path in ("link", "../x"):
        with pytest.raises(InvalidInput, match="outside"):
            sandbox.read_file(path)


@runs
def test_it_is_found_again_listed_and_ended(wrapped: SandboxProvider) -> None:
    owner = somebody()
    made = wrapped.create(Manifest(), owner=owner)
    [owned] = wrapped.list_owned(owner.install)
    assert (owned.run, owned.sandbox, owned.handle) == (owner.run, owner.sandbox, made.handle)
    assert wrapped.list_owned(owner.install, run="another") == []
    assert wrapped.cleanup(owner.install) == 1
    found = wrapped.attach(made.handle, Manifest())
    assert not found.is_running()
    with pytest.raises(SandboxLost):
        sh(found, "true")
    found.terminate()


def test_what_it_does_not_keep_is_refused_at_saving_and_at_opening(
    wrapped: SandboxProvider,
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_environment("bubblewrap", {"folder": "/x"}, Manifest.parse({"image": "x"}))
    assert "The bubblewrap sandbox does not enforce an image (image)" in refused.value.detail
    with pytest.raises(InvalidInput, match="option 'folder' is required"):
        check_environment("bubblewrap", {}, Manifest())
    with pytest.raises(SandboxUnsupported, match="does not enforce a memory limit"):
        wrapped.create(Manifest.parse({"resources": {"memory": "1g"}}), owner=somebody())
    assert satisfies_required_sandbox("bubblewrap", {})


@runs
def test_a_server_with_the_package_runs_an_agents_command_in_it(
    package: Path, server_new: Callable[..., Server], tmp_path: Path
) -> None:
    one = server_new(settings={"PYTHONPATH": str(package)})
    assert "bubblewrap" in one.manage("doctor", "--json")
    one.start()
    body: dict[str, Any] = json.loads(block("json"))
    body["options"]["folder"] = str(tmp_path / "served")
    policy = {"name": "free", "source": "name: free\nmode: permissive\nrules: {}\n"}
    with one.client(one.admin_token) as admin:
        assert admin.post("/api/v1/policies", json=policy).status_code == 201
        made = admin.post("/api/v1/environments", json=body)
        assert made.status_code == 201, made.text
    agent = one.agent("wrapped-bot", policy="free", environment="wrapped")
    with one.client(agent["token"]) as client:
        session = client.post("/sandbox/v1/sessions", json={"manifest": {}}).json()["session_id"]
        command = {"command": ["sh", "-c", "echo $LANG; pwd"], "timeout_seconds": 20}
        ran = client.post(f"/sandbox/v1/sessions/{session}/exec", json=command).json()
        assert (ran["exit_code"], ran["stdout"]) == (0, "C.UTF-8\n/workspace\n")
        assert client.delete(f"/sandbox/v1/sessions/{session}").status_code == 204


# Loading


def test_the_setting_of_the_page_loads_it_too(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    name, _, value = block("sh").strip().partition("=")
    assert name == plugins.SETTING
    plugins.load([value])
    assert not plugins.failures
    assert provider_spec("bubblewrap").label == "Bubblewrap"


def test_the_code_of_the_page_registers_it(package: Path) -> None:
    calls = re.findall(r"```python\n(.*?)```", PAGE, re.S)[1]
    exec(calls, vars(importlib.import_module(MODULE)))
    assert provider_spec("bubblewrap").label == "Bubblewrap"


MODULES = {
    "broken_provider": "raise RuntimeError('no licence')",
    "half_provider": "make = 5\nSPEC = None",
    "fine_provider": "def make(options):\n    return ('made', options)",
    "odd_provider": "def make(options):\n    return None\nmake.SPEC = 'nothing'",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: None) -> Iterator[None]:
    """Modules of all kinds in the Python path."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("mine", "it does not read name=package.module:factory"),
        ("mine=fine_provider.make", "it does not read name=package.module:factory"),
        ("mine=nowhere_at_all:make", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("mine=broken_provider:make", "RuntimeError: no licence"),
        ("mine=fine_provider:mke", "has no attribute 'mke'"),
        ("mine=half_provider:make", "half_provider:make cannot be called"),
        ("mine=odd_provider:make", "TypeError"),
        ("docker=fine_provider:make", "'docker' is already registered"),
        ("Mine=fine_provider:make", "'Mine' cannot name a provider"),
    ],
)
@pytest.mark.usefixtures("modules")
def test_one_that_cannot_be_loaded_is_told_and_the_others_work(entry: str, problem: str) -> None:
    plugins.load([entry, "fine = fine_provider:make"])
    [error] = checks.own_providers_are_loaded(None)
    assert error.id == "omniweb.E101"
    assert problem in error.msg
    assert entry in error.msg
    assert "OMNIWEB_SANDBOX_PROVIDERS" in str(error.hint)
    made: object = open_provider("fine", {"a": 1})
    assert made == ("made", {"a": 1})


@pytest.mark.usefixtures("modules")
def test_a_name_given_twice_is_told() -> None:
    plugins.load(["fine=fine_provider:make", "fine=fine_provider:make"])
    assert [failure.problem for failure in plugins.failures] == [
        "Sandbox provider 'fine' is already registered; pass replace=True"
    ]


def test_nothing_is_loaded_where_nothing_is_named(names: None) -> None:
    plugins.load([])
    assert checks.own_providers_are_loaded(None) == []


@pytest.mark.usefixtures("modules")
def test_a_provider_without_a_spec_is_taken_at_its_word() -> None:
    plugins.load(["fine=fine_provider:make"])
    everything = {"image": "x", "environment": {"secret_refs": ["a"]}, "resources": {"gpu": True}}
    check_environment("fine", {"any": "thing"}, Manifest.parse(everything))


@pytest.mark.usefixtures("modules")
def test_a_run_whose_provider_has_gone_waits_for_it_and_holds_up_nothing(people: People) -> None:
    register_sandbox_provider("mine", lambda options: open_provider("local_test", options))
    allowed = {"allow_test_sandbox_runtime": True}
    environment = environment_create(
        actor=people.admin, name="mine", provider="mine", options=allowed, manifest={}
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
    run_of_mine = run_ready(people.agent, people.approver)
    run_end(actor=people.agent, run=run_of_mine, outcome=RunState.SUCCEEDED)
    registry._registered.pop("mine")
    sandboxes_compare()
    _opened.cache_clear()
    run_finish(run=run_again(run_of_mine))
    reconcile()
    assert run_again(run_of_mine).state == "finishing"
    assert "must be a registered sandbox provider" in run_of_mine.sandboxes.get().reason
    register_sandbox_provider("mine", lambda options: open_provider("local_test", options))
    run_finish(run=run_again(run_of_mine))
    assert run_again(run_of_mine).state == "succeeded"


def test_a_failure_stops_the_start_with_one_clear_line(server_new: Callable[..., Server]) -> None:
    one = server_new(settings={plugins.SETTING: "mine=nowhere_at_all:make"})
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=one.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "(omniweb.E101) A sandbox provider cannot be loaded: ModuleNotFoundError" in done.stderr
    assert "mine=nowhere_at_all:make" in done.stderr


class _Broken(NoneProvider):
    """A provider whose check raises what no provider should."""

    def check(self) -> str:
        raise RuntimeError("its author forgot this")


def test_what_breaks_in_a_check_is_told_and_the_other_providers_still_are(
    people: People, names: None
) -> None:
    register_sandbox_provider("mine", lambda options: _Broken(provider_spec("none"), options))
    told = StringIO()
    call_command("doctor", "--json", stdout=told)
    seen = {item["name"]: item for item in json.loads(told.getvalue())["findings"]}
    assert (seen["mine"]["ok"], seen["mine"]["seen"]) == (
        False,
        "RuntimeError: its author forgot this",
    )
    assert seen["local"]["ok"]
    page = browser_for(people.admin).get("/providers/mine/here")
    assert "Not usable" in page.text
    assert "RuntimeError: its author forgot this" in page.text
