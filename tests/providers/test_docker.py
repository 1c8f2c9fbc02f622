"""Docker: each promise of the requirement document, looked at from inside a real container."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from omniweb.core.errors import (
    Conflict,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import open_provider
from tests.providers.conftest import Create, docker_provider
from tests.providers.running import run, sh, somebody

pytestmark = pytest.mark.docker


def inspected(sandbox: LiveSandbox) -> dict[str, Any]:
    """Return what the engine says about a sandbox's container."""
    engine = docker.from_env()
    try:
        found: dict[str, Any] = engine.api.inspect_container(sandbox.handle["container"])
        return found
    finally:
        engine.close()


def status(sandbox: LiveSandbox) -> Mapping[str, str]:
    """Return the lines of /proc/self/status of a process in the sandbox."""
    lines = run(sandbox, "cat", "/proc/self/status").text.splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.fixture(scope="module")
def bare(docker_image: str) -> Iterator[LiveSandbox]:
    """Return a container whose manifest says nothing."""
    provider, owner = docker_provider(docker_image), somebody()
    yield provider.create(Manifest(), owner=owner)
    provider.cleanup(owner.install)


class TestABareContainer:
    """What a container is when the manifest says nothing."""

    def test_it_has_no_network(self, bare: LiveSandbox) -> None:
        assert run(bare, "ls", "/sys/class/net").text == "lo"
        line = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
        assert b"unreachable" in run(bare, "python3", "-c", line).stderr

    def test_its_root_file_system_is_read_only(self, bare: LiveSandbox) -> None:
        for folder in ("/", "/usr", "/etc", "/var/tmp", "/home"):
            assert sh(bare, f"touch {folder}/x 2>/dev/null").code != 0
        assert " / / ro," in run(bare, "cat", "/proc/self/mountinfo").text

    def test_commands_run_as_nobody(self, bare: LiveSandbox) -> None:
        assert sh(bare, "id -u; id -g; id -G").text.split() == ["65534", "65534", "65534"]

    def test_no_capability_is_left(self, bare: LiveSandbox) -> None:
        found = status(bare)
        kinds = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
        assert {int(found[kind], 16) for kind in kinds} == {0}

    def test_no_privilege_can_be_gained(self, bare: LiveSandbox) -> None:
        assert status(bare)["NoNewPrivs"] == "1"
        assert status(bare)["Seccomp"] == "2"

    def test_it_has_an_init_process_that_buries_the_dead(self, bare: LiveSandbox) -> None:
        sh(bare, "for n in 1 2 3; do (sh -c 'exit 0' &) ; done; sleep 0.5")
        assert "init" in sh(bare, "cat /proc/1/comm").text
        assert sh(bare, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '").text == "0"

    def test_the_working_directory_is_its_own_and_in_memory(self, bare: LiveSandbox) -> None:
        assert sh(bare, "stat -c '%u %g %a' .; pwd").text == "65534 65534 700\n/workspace"
        size = sh(bare, "df -k /workspace | tail -1").text.split()
        assert (size[0], int(size[1])) == ("tmpfs", 1024 * 1024)

    def test_tmp_is_in_memory_and_small(self, bare: LiveSandbox) -> None:
        assert sh(bare, "df -k /tmp | tail -1").text.split()[:2] == ["tmpfs", str(64 * 1024)]
        assert sh(bare, "touch /tmp/x; stat -c %a /tmp").text == "1777"

    def test_programs_of_ones_own_can_be_run_there(self, bare: LiveSandbox) -> None:
        for folder in ("/workspace", "/tmp"):
            sh(bare, f"printf '#!/bin/sh\\necho ran\\n' > {folder}/own; chmod +x {folder}/own")
            assert run(bare, f"{folder}/own").text == "ran"

    def test_home_is_tmp(self, bare: LiveSandbox) -> None:
        assert sh(bare, "echo $HOME; cd; pwd").text == "/tmp\n/tmp"

    def test_it_may_use_two_gigabytes_and_no_swap(self, bare: LiveSandbox) -> None:
        settings = inspected(bare)["HostConfig"]
        assert settings["Memory"] == 2 * 1024**3
        assert settings["MemorySwap"] in (2 * 1024**3, -1)

    def test_it_may_have_256_processes(self, bare: LiveSandbox) -> None:
        assert inspected(bare)["HostConfig"]["PidsLimit"] == 256

    def test_nothing_of_the_host_is_mounted(self, bare: LiveSandbox) -> None:
        assert inspected(bare)["HostConfig"]["Binds"] is None
        assert inspected(bare)["Mounts"] == []
        assert sh(bare, "ls /var/run/docker.sock /run/docker.sock").code != 0

    def test_the_engine_keeps_no_log_of_it(self, bare: LiveSandbox) -> None:
        assert inspected(bare)["HostConfig"]["LogConfig"]["Type"] == "none"

    def test_its_labels_say_whose_it_is(self, bare: LiveSandbox) -> None:
        labels = inspected(bare)["Config"]["Labels"]
        assert set(labels) >= {"omniweb.sandbox", "omniweb.run", "omniweb.install"}


def test_a_command_that_forks_without_end_ends_with_its_time(create: Create) -> None:
    sandbox = create(pids_limit=64)
    line = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    ran = run(sandbox, "python3", "-c", line, time_limit_seconds=3)
    assert ran.result.timed_out
    # Where not even a killer could be started any more, the whole sandbox had to go.
    assert sandbox.is_running() is not ran.result.session_lost


def test_the_manifests_environment_is_there_for_every_command(create: Create) -> None:
    sandbox = create({"environment": {"plain": {"A": "manifest", "B": "manifest"}}})
    assert sh(sandbox, "echo $A $B", env={"B": "call"}).text == "manifest call"
    assert sh(sandbox, "echo $A $B").text == "manifest manifest"


def test_options_change_user_size_and_processes(create: Create) -> None:
    sandbox = create(user="1234", workdir_size="16m", pids_limit=20)
    assert sh(sandbox, "id -u; id -g; stat -c '%u %g' .").text.split() == ["1234"] * 4
    assert sh(sandbox, "df -k . | tail -1").text.split()[1] == str(16 * 1024)
    assert inspected(sandbox)["HostConfig"]["PidsLimit"] == 20


def test_a_full_working_directory_is_said_and_nothing_breaks(create: Create) -> None:
    sandbox = create(workdir_size="1m")
    with pytest.raises(TooLarge, match="no room"):
        sandbox.write_file("large", b"x" * 2_000_000)
    sandbox.write_file("large", b"")
    sandbox.write_file("small", b"fits")
    assert sandbox.read_file("small") == b"fits"


def test_memory_and_processors_are_limited_as_the_manifest_says(create: Create) -> None:
    sandbox = create({"resources": {"memory": "64m", "cpu": "0.5"}})
    settings = inspected(sandbox)["HostConfig"]
    assert (settings["Memory"], settings["NanoCpus"]) == (64 * 1024**2, 500_000_000)
    ran = run(sandbox, "python3", "-c", "x = bytearray(200 * 1024**2); print(len(x))")
    assert ran.code in (1, 137)
    assert run(sandbox, "true").code == 0


def test_a_memory_limit_docker_refuses_is_said_and_leaves_nothing(
    create: Create, install: str, docker_image: str
) -> None:
    with pytest.raises(SandboxUnsupported, match="memory"):
        create({"resources": {"memory": "1m"}})
    assert docker_provider(docker_image).list_owned(install) == []


def test_an_image_in_the_manifest_wins(create: Create, docker_image: str) -> None:
    sandbox = create({"image": docker_image}, image="not-this-one:latest")
    assert run(sandbox, "true").code == 0


def test_a_missing_image_is_said_when_it_may_not_be_fetched(create: Create) -> None:
    with pytest.raises(
        SandboxUnsupported, match="not on the Docker host, and the option pull is 'never'"
    ):
        create({"image": "omniweb-no-such-image:latest"})


def test_an_image_that_cannot_be_fetched_is_said(create: Create) -> None:
    with pytest.raises(SandboxUnsupported, match="cannot be fetched"):
        create({"image": "127.0.0.1:1/no-such-image:latest"}, pull="if_missing")


def test_an_image_that_cannot_start_leaves_no_container(
    create: Create, install: str, docker_image: str
) -> None:
    engine = docker.from_env()
    engine.images.load(empty_image("omniweb-test-empty:latest"))
    try:
        with pytest.raises(SandboxUnsupported, match="needs sh and sleep"):
            create({"image": "omniweb-test-empty:latest"})
        assert docker_provider(docker_image).list_owned(install) == []
    finally:
        engine.images.remove("omniweb-test-empty:latest")
        engine.close()


def empty_image(name: str) -> bytes:
    """Return the archive of an image without a single program."""

    def packed(files: Mapping[str, bytes]) -> bytes:
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w") as archive:
            for path, data in files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return held.getvalue()

    layer = packed({"nothing": b""})
    digest = "sha256:" + hashlib.sha256(layer).hexdigest()
    rootfs = {"type": "layers", "diff_ids": [digest]}
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "config.json": config,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    return packed(files)


def test_a_volume_the_image_declares_is_kept_in_memory_too(
    create: Create, docker_image: str
) -> None:
    engine = docker.from_env()
    base = engine.api.create_container(docker_image, ["true"])["Id"]
    try:
        engine.api.commit(base, "omniweb-test-volume", changes=['VOLUME ["/data"]'])
        sandbox = create({"image": "omniweb-test-volume:latest"})
        assert inspected(sandbox)["Mounts"] == []
        assert sh(sandbox, "touch /data/x; df -k /data | tail -1").text.split()[:2] == [
            "tmpfs",
            "65536",
        ]
        sandbox.terminate()
    finally:
        engine.api.remove_container(base, force=True)
        engine.images.remove("omniweb-test-volume:latest", force=True)
        engine.close()


@pytest.mark.parametrize("folder", ["/", "/proc", "/usr"])
def test_a_working_directory_that_cannot_be_one_is_refused_and_leaves_nothing(
    create: Create, install: str, docker_image: str, folder: str
) -> None:
    with pytest.raises(ProviderError):
        create({"working_dir": folder})
    assert docker_provider(docker_image).list_owned(install) == []


def test_no_proxy_setting_of_the_host_gets_in(
    create: Create, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxies = {"proxies": {"default": {"httpProxy": "http://me:secret@proxy.example.org:3128"}}}
    (tmp_path / "config.json").write_text(json.dumps(proxies))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    # A client of its own reads the configuration anew.
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert "secret" not in run(create(), "env").text


def test_an_unknown_runtime_is_said_with_what_to_do(create: Create) -> None:
    with pytest.raises(SandboxUnsupported) as refused:
        create(runtime="no-such-runtime")
    assert refused.value.detail == (
        "Container runtime 'no-such-runtime' is not available to Docker "
        "(for gVisor, install runsc and register it with the Docker daemon)"
    )


@pytest.mark.gvisor
def test_gvisor_is_another_kernel_without_a_network(create: Create) -> None:
    sandbox = create(runtime="runsc")
    assert inspected(sandbox)["HostConfig"]["Runtime"] == "runsc"
    assert run(sandbox, "uname", "-r").text != os.uname().release
    line = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
    assert run(sandbox, "python3", "-c", line).code != 0
    with pytest.raises(SandboxUnsupported, match="gVisor"):
        sandbox.set_network(NetworkPolicy.model_validate({"default": "allow"}))


@pytest.mark.gvisor
def test_gvisor_keeps_files_and_user_apart_as_well(create: Create) -> None:
    sandbox = create(runtime="runsc")
    assert sh(sandbox, "id -u").text == "65534"
    assert sh(sandbox, "touch /usr/x").code != 0
    sandbox.write_file("a/b", b"data")
    assert sandbox.read_file("a/b") == b"data"


def test_a_network_that_is_allowed_is_the_bridge_and_can_be_taken_away(create: Create) -> None:
    sandbox = create({"network_policy": {"default": "allow"}})
    assert sh(sandbox, "ls /sys/class/net").text.split() == ["eth0", "lo"]
    sandbox.set_network(NetworkPolicy())
    assert sh(sandbox, "ls /sys/class/net").text == "lo"
    sandbox.set_network(NetworkPolicy.model_validate({"default": "allow"}))
    sandbox.set_network(NetworkPolicy.model_validate({"default": "allow"}))
    assert len(sh(sandbox, "ls /sys/class/net").text.split()) == 2


@pytest.mark.parametrize(
    "policy",
    [{"allowed_hosts": ["a.example.org"]}, {"default": "allow", "denied_hosts": ["a.example.org"]}],
)
def test_a_running_sandbox_takes_no_host_lists_either(
    create: Create, policy: dict[str, Any]
) -> None:
    with pytest.raises(SandboxUnsupported, match="host lists are fixed when it is created"):
        create().set_network(NetworkPolicy.model_validate(policy))


def test_a_manifest_docker_cannot_keep_is_refused_again_when_it_opens(create: Create) -> None:
    with pytest.raises(SandboxUnsupported) as refused:
        create({"resources": {"gpu": True}})
    assert refused.value.detail == (
        "The docker sandbox does not enforce a GPU (resources.gpu): leave it unset, or use the http "
        "provider with a service that provides one"
    )
    with pytest.raises(SandboxUnsupported, match="does not enforce allowed_hosts with gVisor"):
        create({"network_policy": {"allowed_hosts": ["a.example.org"]}}, runtime="runsc")


def test_a_mount_is_read_only_unless_it_says_otherwise(create: Create, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "file").write_text("from the host")
    mount = {"source": str(tmp_path), "target": "/mnt/work"}
    sandbox = create({"workspace_mount": mount})
    assert sh(sandbox, "cat /mnt/work/file; touch /mnt/work/new").stdout == b"from the host"
    assert not (tmp_path / "new").exists()
    writable = create({"workspace_mount": {**mount, "mode": "read_write"}})
    assert sh(writable, "touch /mnt/work/new").code == 0
    assert (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "source",
    [
        "/",
        "/etc",
        "/var",
        "/var/run/docker.sock",
        "/VAR/RUN/docker.sock",
        "/home/x/.ssh",
        "/home/x/.AWS/y",
    ],
)
def test_what_must_never_be_mounted_is_refused(create: Create, source: str) -> None:
    with pytest.raises(SandboxUnsupported, match="must not be mounted into a sandbox: "):
        create({"workspace_mount": {"source": source, "target": "/mnt/work"}})


def test_pausing_freezes_what_runs_and_resuming_lets_it_go_on(create: Create) -> None:
    sandbox = create()
    sh(sandbox, "(while :; do echo . >> ticks; sleep 0.1; done) >/dev/null 2>&1 &")
    sandbox.pause()
    sandbox.pause()
    assert not sandbox.is_running()
    with pytest.raises(Conflict, match="paused"):
        run(sandbox, "true")
    sandbox.resume()
    sandbox.resume()
    before = len(sandbox.read_file("ticks"))
    time.sleep(1)
    assert len(sandbox.read_file("ticks")) > before


def test_a_snapshot_brings_the_files_into_another_sandbox(
    create: Create, install: str, docker_image: str
) -> None:
    first = create()
    first.write_file("deep/file", b"kept")
    image = first.snapshot()
    try:
        second = create({"image": image})
        assert second.read_file("deep/file") == b"kept"
        second.write_file("deep/file", b"changed")
        assert first.read_file("deep/file") == b"kept"
    finally:
        # An image in use would only lose its name.
        docker_provider(docker_image).cleanup(install)
        engine = docker.from_env()
        engine.images.remove(image, force=True)
        engine.close()


def test_a_sandbox_can_be_used_from_another_process(create: Create, docker_image: str) -> None:
    sandbox = create()
    sandbox.write_file("note", b"from the first process")
    program = """
import json, sys
from sandboxes.manifest import Manifest
from sandboxes.providers.registry import open_provider
handle, image = json.loads(sys.argv[1]), sys.argv[2]
sandbox = open_provider("docker", {"image": image}).attach(handle, Manifest())
print(sandbox.read_file("note").decode())
sandbox.write_file("answer", b"from the second process")
"""
    arguments = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        program,
        json.dumps(dict(sandbox.handle)),
        docker_image,
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "from the first process"
    assert sandbox.read_file("answer") == b"from the second process"


def test_ending_a_sandbox_twice_is_fine_and_it_is_lost_then(create: Create) -> None:
    sandbox = create()
    sandbox.terminate()
    sandbox.terminate()
    assert not sandbox.is_running()
    for use in (
        lambda: run(sandbox, "true"),
        lambda: sandbox.read_file("x"),
        sandbox.pause,
        sandbox.snapshot,
    ):
        with pytest.raises(SandboxLost):
            use()


def test_a_sandbox_that_is_ended_under_a_command_is_lost_not_a_result(create: Create) -> None:
    sandbox = create()
    threading.Timer(1.5, sandbox.terminate).start()
    with pytest.raises(SandboxLost, match="no longer exists; the command did not finish"):
        sh(sandbox, "sleep 60")


def test_cleaning_up_ends_one_runs_or_one_installations_containers_only(
    create: Create, install: str, docker_image: str
) -> None:
    provider = docker_provider(docker_image)
    mine, other = somebody("run_a", install=install), somebody("run_b", install=install)
    foreign = somebody("run_a")
    first, second = create(owner=mine), create(owner=other)
    third = create(owner=foreign)
    try:
        assert {one.run for one in provider.list_owned(install)} == {"run_a", "run_b"}
        assert [one.sandbox for one in provider.list_owned(install, run="run_a")] == [mine.sandbox]
        assert provider.cleanup(install, run="run_a") == 1
        assert [first.is_running(), second.is_running(), third.is_running()] == [False, True, True]
        assert provider.cleanup(install) == 1
        assert [second.is_running(), third.is_running()] == [False, True]
    finally:
        provider.cleanup(foreign.install)


# The SDK leaves a socket that could not connect to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_engine_that_does_not_answer_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    provider = open_provider("docker", {})
    for use in (
        lambda: provider.create(Manifest(), owner=somebody()),
        lambda: provider.list_owned("anybody"),
        provider.check,
        lambda: run(provider.attach({"container": "0" * 64, "runtime": ""}, Manifest()), "true"),
    ):
        with pytest.raises(ProviderUnavailable, match="start Docker, or set DOCKER_HOST"):
            use()
    gc.collect()


def test_what_it_would_run_with_is_said(docker_image: str) -> None:
    assert docker_provider(docker_image).check().startswith("Docker Engine ")
    with pytest.raises(ProviderMissing, match="no-such"):
        docker_provider(docker_image, runtime="no-such").check()
