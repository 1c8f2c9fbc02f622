"""Containers with nothing but what the manifest gives them (requirement document 1, "Docker")."""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

import docker.errors
from docker.types import LogConfig, Mount

from omniweb.core.errors import (
    OmniWebError,
    ProviderError,
    ProviderMissing,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes import capabilities
from sandboxes.manifest import (
    Manifest,
    MountMode,
    NetworkDefault,
    NetworkPolicy,
    cpu_count,
    memory_bytes,
)
from sandboxes.providers import guest, isolation
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider, Stream
from sandboxes.providers.engine import (
    ContainerProcess,
    client,
    create_container,
    engine_errors,
    no_runtime,
)
from sandboxes.providers.limits import MIB
from sandboxes.providers.mounts import mount_source
from sandboxes.providers.pump import Output
from sandboxes.providers.shell import ShellSandbox

SANDBOX, RUN, INSTALL = "omniweb.sandbox", "omniweb.run", "omniweb.install"
DEFAULT_MEMORY = "2g"
TMP_SIZE = "64m"
# Keeps the container; a plain number because not every sleep knows "infinity".
KEEPER = ["sleep", "2147483647"]
NETWORKS = {NetworkDefault.DENY: "none", NetworkDefault.ALLOW: "bridge"}


class DockerProvider(SandboxProvider):
    """One container for each sandbox, on the Docker Engine that DOCKER_HOST names."""

    def _create(self, manifest: Manifest, owner: Owner) -> DockerSandbox:
        settings = self._settings(manifest, owner)
        container = create_container(settings, pull=self.options["pull"] != "never")
        handle = {"container": container, "runtime": self.options["runtime"] or ""}
        sandbox = self.attach(handle, manifest)
        try:
            with engine_errors():
                client().start(container)
            tables = sandbox.chore(guest.ready(manifest.working_dir), about=manifest.working_dir)
            if isolation.is_required(manifest.network_policy):
                sandbox.isolation = _isolated(tables)
        except BaseException as error:
            with suppress(OmniWebError):
                sandbox.terminate()
            if _cannot_live(error):
                raise SandboxUnsupported(
                    f"The image {settings['image']} cannot be a sandbox: it needs sh and sleep"
                ) from error
            raise
        return sandbox

    def attach(self, handle: Handle, manifest: Manifest) -> DockerSandbox:
        return DockerSandbox(handle, manifest, self.options["max_output_bytes"])

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        labels = [f"{INSTALL}={install}", *([f"{RUN}={run}"] if run else [])]
        with engine_errors():
            found = client().containers(all=True, filters={"label": labels})
        return [
            Owned(
                handle={"container": one["Id"], "runtime": ""},
                run=one["Labels"].get(RUN, ""),
                sandbox=one["Labels"].get(SANDBOX, ""),
                running=one["State"] == "running",
                created_at=datetime.fromtimestamp(one["Created"], UTC),
            )
            for one in found
        ]

    def check(self) -> str:
        with engine_errors():
            version, info = client().version(), client().info()
        runtime = self.options["runtime"] or info["DefaultRuntime"]
        if runtime not in info["Runtimes"]:
            raise ProviderMissing(no_runtime(runtime))
        return f"Docker Engine {version['Version']}, runtime {runtime}"

    def _settings(self, manifest: Manifest, owner: Owner) -> dict[str, Any]:
        uid, _, gid = self.options["user"].partition(":")
        home = {"HOME": "/tmp"}  # noqa: S108 -- the container's own, a tmpfs
        return {
            "image": manifest.image or self.options["image"],
            "entrypoint": KEEPER[:1],
            "command": KEEPER[1:],
            "user": f"{uid}:{gid or uid}",
            # No working_dir here: Docker would make it beforehand, and the runtime would then put
            # that folder's mode on what is mounted there.
            "environment": {**home, **manifest.environment.plain, guest.MARK: "keeper"},
            "labels": {SANDBOX: owner.sandbox, RUN: owner.run, INSTALL: owner.install},
            # An image's own check would be a process that nobody asked for.
            "healthcheck": {"test": ["NONE"]},
            "host_config": client().create_host_config(
                **self._host_settings(manifest, uid, gid or uid)
            ),
        }

    def _host_settings(self, manifest: Manifest, uid: str, gid: str) -> dict[str, Any]:
        memory = memory_bytes(manifest.resources.memory or DEFAULT_MEMORY)
        room = memory_bytes(self.options["workdir_size"])
        tmpfs = {
            "/tmp": f"rw,exec,nosuid,nodev,size={TMP_SIZE},mode=1777",  # noqa: S108 -- in the container
            manifest.working_dir: f"rw,exec,nosuid,nodev,size={room},uid={uid},gid={gid},mode=0700",
        }
        settings: dict[str, Any] = {
            "network_mode": NETWORKS[manifest.network_policy.default],
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": self.options["pids_limit"],
            "init": True,
            "mem_limit": memory,
            # The same number again means: no swap on top.
            "memswap_limit": memory,
            "log_config": LogConfig(type=LogConfig.types.NONE),
            "runtime": self.options["runtime"],
        }
        if manifest.resources.cpu:
            settings["nano_cpus"] = int(cpu_count(manifest.resources.cpu) * 10**9)
        if manifest.workspace_mount:
            mount = manifest.workspace_mount
            read_only = mount.mode is MountMode.READ_ONLY
            source = mount_source(mount.source)
            settings["mounts"] = [Mount(mount.target, source, type="bind", read_only=read_only)]
            tmpfs.pop(mount.target, None)
        return {**settings, "tmpfs": tmpfs}


class DockerSandbox(ShellSandbox):
    """One container, found by its id."""

    def __init__(self, handle: Handle, manifest: Manifest, max_output_bytes: int) -> None:
        self.handle = handle
        self._id: str = handle["container"]
        super().__init__(self._id[:12], manifest.working_dir, max_output_bytes)

    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> ContainerProcess:
        return ContainerProcess(self._id, argv, output, env=env, stdin=stdin)

    def is_running(self) -> bool:
        try:
            with engine_errors():
                state = client().inspect_container(self._id)["State"]
        except ProviderError as error:
            if isinstance(error.__cause__, docker.errors.NotFound):
                return False
            raise
        return bool(state["Running"] and not state["Paused"])

    def terminate(self) -> None:
        with engine_errors(self._id), suppress(docker.errors.NotFound):
            try:
                client().remove_container(self._id, force=True, v=True)
            except docker.errors.APIError as error:
                # Two at once: the other one is removing it.
                if error.status_code != 409:
                    raise

    def set_network(self, policy: NetworkPolicy) -> None:
        kept = frozenset({capabilities.Setting.NETWORK_OFF})
        capabilities.check_when_opened("docker", kept, Manifest(network_policy=policy))
        if self.handle["runtime"] == "runsc":
            raise SandboxUnsupported("gVisor fixes a sandbox's network when it is created")
        wanted = NETWORKS[policy.default]
        with engine_errors(self._id):
            networks = client().inspect_container(self._id)["NetworkSettings"]["Networks"]
            # A container cannot be without a network and in one at the same time.
            for name in set(networks) - {wanted}:
                client().disconnect_container_from_network(self._id, name)
            if wanted not in networks:
                client().connect_container_to_network(self._id, wanted)

    def pause(self) -> None:
        self._once(client().pause, "already paused")

    def resume(self) -> None:
        self._once(client().unpause, "not paused")

    def _once(self, act: Callable[[str], None], already: str) -> None:
        with engine_errors(self._id):
            try:
                act(self._id)
            except docker.errors.APIError as error:
                if already not in str(error.explanation):
                    raise

    def snapshot(self) -> str:
        """Return the name of a new image: this sandbox's image and the files of its working directory."""
        with tempfile.SpooledTemporaryFile(max_size=16 * MIB) as files:
            output = Output(sys.maxsize, partial(_keep_stdout, files))
            if self.ran(guest.keep(self._working_dir), output):
                raise SandboxUnsupported("A snapshot needs tar in the image")
            files.seek(0)
            with engine_errors(self._id):
                self._commit(files)
        return f"omniweb-snapshot:{self._name}"

    def _commit(self, files: IO[bytes]) -> None:
        mine = client().inspect_container(self._id)
        # The sandbox's own file system cannot be written to, so a copy that never runs is.
        # It carries the same labels: if this process dies now, it goes with the run.
        labels = mine["Config"]["Labels"]
        copy = client().create_container(mine["Image"], entrypoint=KEEPER, labels=labels)["Id"]
        try:
            client().put_archive(copy, "/", _empty_folder(guest.KEPT.strip("/")))
            client().put_archive(copy, guest.KEPT, files)
            client().commit(copy, repository="omniweb-snapshot", tag=self._name)
        finally:
            client().remove_container(copy, force=True, v=True)


def _isolated(tables: bytes) -> isolation.Evidence:
    """Return what a container's own tables prove; raises SandboxUnsupported where they show a way out."""
    evidence = isolation.read_routes(tables)
    if evidence.verdict is isolation.Verdict.REACHED:
        raise SandboxUnsupported(
            "The docker sandbox was created with no network access, but it has a route by "
            f"{evidence.reason}: the Docker Engine or its runtime does not keep network_mode none",
            evidence=evidence.to_dict(),
        )
    return evidence


def _keep_stdout(files: IO[bytes], stream: Stream, data: bytes) -> None:
    if stream == "stdout":
        files.write(data)


def _empty_folder(name: str) -> bytes:
    """Return a tar archive with one folder in it."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
    return held.getvalue()


def _cannot_live(error: BaseException) -> bool:
    """Say whether a new container failed for want of a program, or ended by itself at once."""
    missing = isinstance(error, ProviderError) and "executable file not found" in error.detail
    return missing or isinstance(error, SandboxLost)
