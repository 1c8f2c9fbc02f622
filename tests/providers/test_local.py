"""Local: what the requirement document says about running on this machine, and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from omniweb.core.errors import InvalidInput, SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import check_environment, open_provider, provider_spec
from tests.providers import unique
from tests.providers.running import run, sh, somebody

Open = Callable[..., LiveSandbox]


def manifest(folder: Path, **fields: Any) -> Manifest:
    """Return a manifest that local can keep."""
    return Manifest.parse(
        {"working_dir": str(folder), "network_policy": {"default": "allow"}, **fields}
    )


@pytest.fixture
def install() -> Iterator[str]:
    """Return an installation whose processes are ended with the test."""
    name = unique("test")
    yield name
    open_provider("local", {}).cleanup(name)


@pytest.fixture
def opened(tmp_path: Path, install: str) -> Open:
    """Return a function that opens a local sandbox: options, then manifest fields."""

    def make(options: Mapping[str, Any] | None = None, **fields: Any) -> LiveSandbox:
        provider = open_provider("local", options or {})
        return provider.create(manifest(tmp_path, **fields), owner=somebody(install=install))

    return make


def variables(sandbox: LiveSandbox) -> dict[str, str]:
    """Return what a command sees, without what its own shell adds."""
    line = "import json, os; print(json.dumps(dict(os.environ)))"
    found: dict[str, str] = json.loads(run(sandbox, sys.executable, "-c", line).text)
    # Python sets this one itself where no language is set.
    found.pop("LC_CTYPE", None)
    return found


def test_commands_run_as_the_servers_own_user_in_the_working_directory(
    opened: Open, tmp_path: Path
) -> None:
    assert sh(opened(), "id -u; pwd").text == f"{os.getuid()}\n{tmp_path}"


def test_only_the_named_host_variables_are_passed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ")
    for name in named:
        monkeypatch.setenv(name, os.environ.get(name) or "C")
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    sandbox = opened(environment={"plain": {"FROM_MANIFEST": "1"}})
    assert set(variables(sandbox)) == {*named, "FROM_MANIFEST", "OMNIWEB_COMMAND"}


def test_the_manifests_variables_win_over_the_hosts_and_the_calls_over_both(opened: Open) -> None:
    sandbox = opened(environment={"plain": {"TERM": "manifest", "A": "manifest"}})
    assert sh(sandbox, "echo $TERM $A", env={"A": "call"}).text == "manifest call"


def test_more_host_variables_are_passed_by_name(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/here")
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    sandbox = opened({"environment_passthrough": ["VIRTUAL_ENV", "NOT_SET_ANYWHERE"]})
    found = variables(sandbox)
    assert found["VIRTUAL_ENV"] == "/here"
    assert "LLM_API_KEY" not in found
    assert "NOT_SET_ANYWHERE" not in found


def test_the_whole_environment_is_passed_only_when_asked_for(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    assert variables(opened({"inherit_environment": True}))["LLM_API_KEY"] == "sk-secret"


def test_a_missing_working_directory_is_refused_with_what_to_do(tmp_path: Path) -> None:
    missing = tmp_path / "app"
    with pytest.raises(SandboxUnsupported) as refused:
        open_provider("local", {}).create(manifest(missing), owner=somebody())
    assert refused.value.detail == (
        f"The local sandbox's working directory {missing} does not exist; create it, set "
        "sandbox_manifest.working_dir to one that does, or set the option create_working_dir=true"
    )


def test_a_missing_working_directory_is_made_when_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "app"
    provider = open_provider("local", {"create_working_dir": True})
    sandbox = provider.create(manifest(folder), owner=somebody())
    assert run(sandbox, "pwd").text == str(folder)


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"network_policy": {"default": "deny"}}, "network off"),
        ({"image": "python:3.12-slim"}, "an image (image)"),
        (
            {"network_policy": {"default": "allow", "allowed_hosts": ["a.example.org"]}},
            "a network host allowlist (allowed_hosts)",
        ),
        (
            {"network_policy": {"default": "allow", "denied_hosts": ["a.example.org"]}},
            "blocking named hosts (denied_hosts)",
        ),
        (
            {"workspace_mount": {"source": "/srv/x", "target": "/mnt"}},
            "a workspace mount (workspace_mount)",
        ),
        ({"resources": {"cpu": "1"}}, "a CPU limit (resources.cpu)"),
        ({"resources": {"memory": "1g"}}, "a memory limit (resources.memory)"),
        ({"resources": {"gpu": True}}, "a GPU (resources.gpu)"),
        ({"resources": {"timeout_seconds": 60}}, "a sandbox lifetime (resources.timeout_seconds)"),
        (
            {"environment": {"secret_refs": ["vault/key"]}},
            "delivering secrets (environment.secret_refs)",
        ),
    ],
)
def test_what_it_cannot_keep_is_refused_when_saved_and_when_opened(
    tmp_path: Path, fields: dict[str, Any], setting: str
) -> None:
    asked = manifest(tmp_path, **fields)
    start = f"The local sandbox does not enforce {setting}: "
    with pytest.raises(InvalidInput) as refused:
        check_environment("local", {}, asked)
    assert refused.value.detail.startswith(start)
    with pytest.raises(SandboxUnsupported) as refused_again:
        open_provider("local", {}).create(asked, owner=somebody())
    assert refused_again.value.detail.startswith(start)


def test_without_a_manifest_it_says_that_it_cannot_cut_the_network() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_environment("local", {}, Manifest())
    assert refused.value.detail == (
        "The local sandbox does not enforce network off: local runs on the host and cannot cut its "
        "network; set network_policy default 'allow' with no host lists, or use an isolating "
        "provider such as docker"
    )


def test_its_table_entry_calls_it_the_host_and_no_sandbox() -> None:
    spec = provider_spec("local")
    assert (spec.execution_surface, spec.supports_required_sandbox) == ("host", False)


def test_new_files_belong_to_the_owner_alone(opened: Open, tmp_path: Path) -> None:
    opened().write_file("notes/new", b"")
    assert (tmp_path / "notes" / "new").stat().st_mode & 0o777 == 0o600


def test_an_environment_emptied_on_the_way_does_not_hide_a_child(opened: Open) -> None:
    sandbox, mark = opened(), unique("hidden")
    nap = f"env -i {sys.executable} -c 'import time; time.sleep(60)' {mark}"
    assert sh(sandbox, f"{nap} & setsid {nap} & {nap}", time_limit_seconds=1).result.timed_out
    assert mark not in sh(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").text


def test_ending_the_sandbox_ends_what_commands_left_running(opened: Open, install: str) -> None:
    sandbox, provider = opened(), open_provider("local", {})
    sh(sandbox, "setsid sleep 60 >/dev/null 2>&1 &")
    assert [one.handle for one in provider.list_owned(install)] == [sandbox.handle]
    sandbox.terminate()
    assert provider.list_owned(install) == []
    sandbox.terminate()


def test_another_process_finds_and_ends_what_a_dead_server_left(
    tmp_path: Path, install: str
) -> None:
    program = """
import sys
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Command, Owner
from sandboxes.providers.registry import open_provider
manifest = Manifest.parse({"working_dir": sys.argv[1], "network_policy": {"default": "allow"}})
owner = Owner(install=sys.argv[2], run="run_a", sandbox="sbx_a")
sandbox = open_provider("local", {}).create(manifest, owner=owner)
command = Command(argv=("sh", "-c", "echo up; sleep 60"))
sandbox.execute(command, on_output=lambda stream, data: print(data, flush=True), cancelled=lambda: False)
"""
    server = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), install], stdout=subprocess.PIPE
    )
    with server:
        assert server.stdout is not None
        server.stdout.readline()
        server.kill()
    provider = open_provider("local", {})
    assert [one.run for one in provider.list_owned(install)] == ["run_a"]
    assert provider.list_owned(install, run="run_b") == []
    assert provider.cleanup(install, run="run_a") == 1
    time.sleep(0.1)
    assert provider.list_owned(install) == []
