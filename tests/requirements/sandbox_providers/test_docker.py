"""Docker: every sentence and option, looked at from inside a real container."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from omniweb.accounts.permissions import system
from omniweb.core.errors import InvalidInput, SandboxUnsupported
from omniweb.core.installation import installation_id
from sandboxes.manifest import Manifest
from sandboxes.models import Profile, Run, RunState
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import open_provider, provider_spec
from sandboxes.services.environments import environment_create
from sandboxes.services.reconcile import sandboxes_compare
from sandboxes.services.runs import run_end, run_finish
from tests.factories import ask, policy_use, run_again, run_ready, work
from tests.people import People
from tests.providers import unique
from tests.providers.running import run, sh, somebody
from tests.requirements.sandbox_providers.doors import Place, refused_everywhere

pytestmark = pytest.mark.docker

Create = Callable[..., LiveSandbox]


@pytest.fixture(scope="module")
def install() -> str:
    """The name of an installation that only this module has."""
    return unique("test")


@pytest.fixture(scope="module")
def provide(docker_image: str, install: str) -> Iterator[Callable[..., SandboxProvider]]:
    """Return the provider on the tests' image; its containers are removed at the end."""

    def opened(**options: Any) -> SandboxProvider:
        return open_provider("docker", {"image": docker_image, "pull": "never"} | options)

    yield opened
    opened().cleanup(install)


@pytest.fixture
def create(provide: Callable[..., SandboxProvider], install: str) -> Create:
    """Return a function that makes a container: manifest fields, then options."""

    def make(fields: Mapping[str, Any] | None = None, **options: Any) -> LiveSandbox:
        owner = somebody(install=install)
        return provide(**options).create(Manifest.parse(fields or {}), owner=owner)

    return make


@pytest.fixture(scope="module")
def bare(provide: Callable[..., SandboxProvider], install: str) -> LiveSandbox:
    """A container of a manifest that says nothing."""
    return provide().create(Manifest(), owner=somebody(install=install))


def containers(label: str) -> list[dict[str, Any]]:
    """Return what the engine has with a label."""
    engine = docker.from_env()
    try:
        found: list[dict[str, Any]] = engine.api.containers(all=True, filters={"label": label})
        return found
    finally:
        engine.close()


@pytest.fixture
def agents_run(people: People, docker_image: str) -> Run:
    """A ready run of the agent in a container."""
    policy_use(people.agent, "name: free\nmode: permissive\nrules: {}\n")
    environment = environment_create(
        actor=system(people.team),
        name="docker",
        provider="docker",
        options={"image": docker_image, "pull": "never"},
        manifest={},
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
    return run_ready(people.agent, people.approver)


# "One container per run, removed when the run ends."


@pytest.mark.django_db(transaction=True)
def test_a_run_has_one_container_until_it_ends(people: People, agents_run: Run) -> None:
    """'One container per run, removed when the run ends.'"""
    for line in ("echo one > file", "cat file"):
        assert work(ask(people.agent, agents_run, line)).exit_code == 0
    [container] = containers(f"omniweb.run={agents_run.ref}")
    assert container["State"] == "running"
    run_end(actor=people.agent, run=run_again(agents_run), outcome=RunState.SUCCEEDED)
    run_finish(run=run_again(agents_run))
    assert containers(f"omniweb.run={agents_run.ref}") == []


# "It has …"


def test_it_has_no_network_unless_the_manifest_allows_it(bare: LiveSandbox, create: Create) -> None:
    """'It has no network unless the manifest allows it'."""
    devices = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort"
    assert sh(bare, devices).text == "lo"
    assert "eth0" in sh(create({"network_policy": {"default": "allow"}}), devices).text


def test_it_has_a_read_only_root_filesystem(bare: LiveSandbox) -> None:
    """'a read-only root filesystem'."""
    for path in ("/x", "/usr/x", "/etc/x", "/var/x", "/root/x"):
        assert sh(bare, f"echo > {path}").code != 0


def test_it_has_an_unprivileged_user(bare: LiveSandbox) -> None:
    """'an unprivileged user', 'user 65534 (nobody)'."""
    assert sh(bare, "id -u; id -g").text == "65534\n65534"


def test_all_linux_capabilities_are_dropped(bare: LiveSandbox) -> None:
    """'all Linux capabilities dropped'."""
    lines = sh(bare, "grep ^Cap /proc/self/status").text.splitlines()
    assert {line.split()[1] for line in lines} == {"0" * 16}


def test_there_is_no_privilege_escalation(bare: LiveSandbox) -> None:
    """'no privilege escalation'."""
    assert sh(bare, "grep NoNewPrivs /proc/self/status").text.split()[1] == "1"


def test_there_is_a_process_limit(create: Create) -> None:
    """'a process limit'."""
    few = create(pids_limit=20)
    assert sh(few, "for n in $(seq 60); do sleep 5 & done", time_limit_seconds=20).code != 0


def test_working_directory_and_tmp_are_kept_in_memory(bare: LiveSandbox) -> None:
    """'a working directory and /tmp kept in memory'."""
    mounts = sh(bare, "cat /proc/mounts").text.splitlines()
    kinds = {line.split()[1]: line.split()[2] for line in mounts}
    assert kinds["/workspace"] == kinds["/tmp"] == "tmpfs"
    assert sh(bare, "echo > /workspace/x && echo > /tmp/x").code == 0


@pytest.mark.parametrize(
    "source",
    [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/",
        "/etc",
        "/proc",
        "/sys",
        "/usr",
        "/home/someone/.ssh",
        "/home/someone/.aws",
        "/home/someone/.docker",
        "/home/someone/.kube/config",
    ],
)
def test_what_is_never_mounted(create: Create, source: str) -> None:
    """'The Docker socket, system directories and credential folders … are never mounted.'"""
    with pytest.raises(SandboxUnsupported, match="must not be mounted into a sandbox"):
        create({"workspace_mount": {"source": source, "target": "/data"}})


def test_a_link_to_such_a_folder_is_none_either(create: Create, tmp_path: Path) -> None:
    """'never mounted', under another name too."""
    link = tmp_path / "harmless"
    link.symlink_to("/etc")
    with pytest.raises(SandboxUnsupported, match="must not be mounted into a sandbox"):
        create({"workspace_mount": {"source": str(link), "target": "/data"}})


def test_a_missing_image_is_fetched_unless_that_is_forbidden(create: Create) -> None:
    """'The first run pulls the image'; '"never": the image must already be there'."""
    absent = "127.0.0.1:9/omniweb/no-such-image:1"
    with pytest.raises(SandboxUnsupported, match="cannot be fetched"):
        create(image=absent, pull="if_missing")
    with pytest.raises(SandboxUnsupported, match=r"is not on the Docker host, and .* 'never'"):
        create(image=absent, pull="never")


def test_a_command_cannot_install_packages_without_a_network(bare: LiveSandbox) -> None:
    """'with no network a command cannot pip install'."""
    line = "python3 -m pip install --retries 0 --timeout 2 --target /tmp/p requests"
    assert sh(bare, line, time_limit_seconds=60).code != 0


def test_the_image_is_named_in_the_options_or_the_manifest(
    create: Create, docker_image: str
) -> None:
    """'name it in the options or the manifest'; 'a manifest's image wins'."""
    assert run(create(image=docker_image), "true").code == 0
    assert run(create({"image": docker_image}, image="no-such-image:1"), "true").code == 0


# The options

DEFAULTS = {
    "image": "python:3.12-slim",
    "user": "65534:65534",
    "workdir_size": "1g",
    "pids_limit": 256,
    "pull": "if_missing",
    "runtime": None,
    # Ours, for host lists.
    "gateway_image": "omniweb-gateway:1",
    "gateway_network": "bridge",
    "gateway_name_servers": (),
    "verify_network_isolation": True,
    "max_output_bytes": 1_000_000,
}


def test_the_options_are_those_of_the_table_with_their_defaults() -> None:
    """The table of options, its first two columns."""
    assert provider_spec("docker").read_options({}) == DEFAULTS


def test_user_is_numeric(people: People, create: Create) -> None:
    """'user: Numeric uid or uid:gid'."""
    assert sh(create(user="1234:5678"), "id -u; id -g; echo > x; ls -ldn . x").code == 0
    assert sh(create(user="1234"), "id -u; id -g").text == "1234\n1234"
    named = Place(provider="docker", options={"user": "nobody"})
    sentence = (
        "docker sandbox option 'user' must be numeric ('uid' or 'uid:gid') so the working "
        "directory can belong to it"
    )
    assert refused_everywhere(people, named) == [sentence] * 3


def test_workdir_size_is_the_room_in_the_working_directory(create: Create) -> None:
    """'workdir_size: Size of the in-memory working directory'."""
    small = create(workdir_size="2m")
    assert sh(small, "head -c 1000000 /dev/zero > fits").code == 0
    assert sh(small, "head -c 3000000 /dev/zero > full").code != 0
    assert sh(create(), "df -k . | tail -1").text.split()[1] == str(1024 * 1024)


def test_pids_limit_is_the_most_processes_at_once(bare: LiveSandbox, create: Create) -> None:
    """'pids_limit: Most processes at once', 256."""
    limit = "cat /sys/fs/cgroup/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids/pids.max"
    assert sh(bare, limit).text == "256"
    assert sh(create(pids_limit=33), limit).text == "33"


@pytest.mark.gvisor
def test_runtime_runs_the_container_under_gvisor(create: Create) -> None:
    """'"runsc" runs the container under gVisor'."""
    assert "gVisor" in sh(create(runtime="runsc"), "cat /proc/version; dmesg 2>/dev/null").text


def test_max_output_bytes_is_kept_of_each_stream_and_the_rest_is_cut(create: Create) -> None:
    """'Output kept per stream; the rest is cut'."""
    ran = sh(create(max_output_bytes=10), "echo 0123456789abc; echo 0123456789abc >&2")
    assert (ran.stdout, ran.stderr) == (b"0123456789", b"0123456789")
    assert (ran.result.stdout_truncated, ran.result.stdout_bytes) == (True, 14)


def test_sizes_and_numbers_that_are_none_are_refused(people: People) -> None:
    """The table of options, read as what may be written there."""
    wrong = {"workdir_size": "lots", "pids_limit": 0, "pull": "always", "max_output_bytes": -1}
    for option, value in wrong.items():
        place = Place(provider="docker", options={option: value})
        told = refused_everywhere(people, place)
        assert all(text.startswith(f"docker sandbox option '{option}' must be") for text in told)


# What is left behind


@pytest.mark.django_db(transaction=True)
def test_what_a_killed_process_left_behind_is_removed(people: People, agents_run: Run) -> None:
    """'A container left behind … is removed when its run is … abandoned'."""
    agents_run.sandboxes.update(state="lost")
    assert containers(f"omniweb.run={agents_run.ref}")
    sandboxes_compare()
    assert containers(f"omniweb.run={agents_run.ref}") == []


@pytest.mark.django_db(transaction=True)
def test_each_container_carries_its_runs_id(people: People, agents_run: Run) -> None:
    """'each container carries its run's ID in the label'."""
    [container] = containers(f"omniweb.run={agents_run.ref}")
    assert container["Labels"]["omniweb.install"] == installation_id()
    assert container["Labels"]["omniweb.sandbox"] == agents_run.sandboxes.get().ref
    run_end(actor=people.agent, run=run_again(agents_run), outcome=RunState.SUCCEEDED)
    run_finish(run=run_again(agents_run))


def test_leftovers_are_removed_for_one_run_or_for_all_of_this_installation(
    provide: Callable[..., SandboxProvider],
) -> None:
    """'To remove one run's leftovers yourself'; ours never touches another installation's."""
    mine, other = unique("mine"), unique("other")
    provider = provide()
    one, two = somebody("run_one", install=mine), somebody("run_two", install=mine)
    for owner in (one, two, somebody("run_one", install=other)):
        provider.create(Manifest(), owner=owner)
    assert provider.cleanup(mine, run="run_one") == 1
    assert [owned.run for owned in provider.list_owned(mine)] == ["run_two"]
    assert provider.cleanup(mine) == 1
    assert provider.cleanup(other) == 1


def test_an_option_that_belongs_to_the_manifest_is_refused() -> None:
    """'the network belongs in the manifest'."""
    with pytest.raises(InvalidInput, match=r"Unknown docker sandbox option\(s\): network"):
        open_provider("docker", {"network": "allow"})
