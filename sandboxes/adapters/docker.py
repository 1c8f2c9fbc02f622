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
from ipaddress import IPv4Address
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
from sandboxes.manifest import (
    Manifest,
    MountMode,
    NetworkDefault,
    NetworkPolicy,
    cpu_count,
    memory_bytes,
)
from sandboxes.providers import gateway, gateway_container, guest, isolation
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider, Stream
from sandboxes.providers.delivery import FIXED_BY_SECRETS, SECRET_FOLDER, GivenSecret
from sandboxes.providers.engine import (
    ContainerProcess,
    client,
    create_container,
    engine_errors,
    image_is_there,
    no_runtime,
    remove,
)
from sandboxes.providers.isolation import Target
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
        handle = {"container": "", "runtime": self.options["runtime"] or ""}
        try:
            if gateway.is_needed(manifest.network_policy):
                handle["gateway"] = f"omniweb-gateway-{owner.sandbox}"
                handle["address"] = self._open_gateway(handle["gateway"], manifest, owner)
            settings = self._settings(manifest, owner, handle)
            handle["container"] = create_container(settings, pull=self.options["pull"] != "never")
            sandbox = self.attach(handle, manifest)
            _start(sandbox, manifest, settings["image"])
        except BaseException:
            with suppress(OmniWebError):
                self.attach(handle, manifest).terminate()
            raise
        return sandbox

    def _open_gateway(self, name: str, manifest: Manifest, owner: Owner) -> str:
        """Return the address of a new gateway's, the sandbox's one way out."""
        with engine_errors():
            runtime = self.options["runtime"] or client().info()["DefaultRuntime"]
        if runtime == gateway.GVISOR:
            raise SandboxUnsupported(gateway.no_gvisor("host lists"))
        way = gateway_container.Way(
            image=self.options["gateway_image"],
            network=self.options["gateway_network"],
            name_servers=tuple(map(IPv4Address, self.options["gateway_name_servers"])),
        )
        policy, labels = manifest.network_policy, _labels(owner)
        return str(gateway_container.open_gateway(name, policy, way, labels))

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> DockerSandbox:
        sandbox = self._create(manifest, owner)
        try:
            for secret in given:
                path = f"{SECRET_FOLDER}/{secret.name}"
                value = secret.value.encode("utf-8", "surrogatepass")
                sandbox.chore([*guest.KEEP_SECRET, path], about=path, stdin=value)
        except BaseException:
            with suppress(OmniWebError):
                sandbox.terminate()
            raise
        return sandbox

    def attach(self, handle: Handle, manifest: Manifest) -> DockerSandbox:
        return DockerSandbox(handle, manifest, self.options["max_output_bytes"])

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        labels = [f"{INSTALL}={install}", *([f"{RUN}={run}"] if run else [])]
        with engine_errors():
            found = client().containers(all=True, filters={"label": labels})
        networks = gateway_container.networks(labels)
        gateways = {one["Names"][0][1:]: one["State"] for one in found if _is_gateway(one)}
        sandboxes = [one for one in found if not _is_gateway(one)]
        kept = {one["Labels"].get(gateway_container.LABEL) for one in sandboxes}
        # Of a gateway without a sandbox, the network is there at first and at last.
        left = [one for one in networks if one["Name"] not in kept]
        return [
            *(_owned(one, gateways) for one in sandboxes),
            *(_owned({"Labels": one["Labels"]}, gateways) for one in left),
        ]

    def check(self) -> str:
        with engine_errors():
            version, info = client().version(), client().info()
        runtime = self.options["runtime"] or info["DefaultRuntime"]
        if runtime not in info["Runtimes"]:
            raise ProviderMissing(no_runtime(runtime))
        image = self.options["gateway_image"]
        line = f"Docker Engine {version['Version']}, runtime {runtime}"
        if image_is_there(image):
            return f"{line}, egress gateway {image}"
        return f"{line}. {gateway_container.no_image(image)}"

    def _settings(self, manifest: Manifest, owner: Owner, handle: Handle) -> dict[str, Any]:
        uid, _, gid = self.options["user"].partition(":")
        home = {"HOME": "/tmp"}  # noqa: S108 -- the container's own, a tmpfs
        return {
            "image": manifest.image or self.options["image"],
            "entrypoint": KEEPER[:1],
            "command": KEEPER[1:],
            "user": f"{uid}:{gid or uid}",
            # No working_dir here: Docker would make it beforehand, and the runtime would then put
            # that folder's mode on what is mounted there.
            "environment": {
                **home,
                **manifest.environment.plain,
                **_secret_files(manifest),
                guest.MARK: "keeper",
            },
            "labels": _labels(owner) | _gateway_label(handle),
            # An image's own check would be a process that nobody asked for.
            "healthcheck": {"test": ["NONE"]},
            "host_config": client().create_host_config(
                **self._host_settings(manifest, uid, gid or uid) | _network(manifest, handle)
            ),
        }

    def _host_settings(self, manifest: Manifest, uid: str, gid: str) -> dict[str, Any]:
        memory = memory_bytes(manifest.resources.memory or DEFAULT_MEMORY)
        room = memory_bytes(self.options["workdir_size"])
        tmpfs = {
            "/tmp": f"rw,exec,nosuid,nodev,size={TMP_SIZE},mode=1777",  # noqa: S108 -- in the container
            manifest.working_dir: f"rw,exec,nosuid,nodev,size={room},uid={uid},gid={gid},mode=0700",
        }
        if manifest.environment.secret_refs:
            tmpfs[SECRET_FOLDER] = f"rw,noexec,nosuid,nodev,size=1m,uid={uid},gid={gid},mode=0700"
        settings: dict[str, Any] = {
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
        self._gateway: str = handle.get("gateway", "")
        self._has_secrets = bool(manifest.environment.secret_refs)
        self.knows_allowed_names_only = bool(self._gateway)
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
        is_up = bool(state["Running"] and not state["Paused"])
        # Without its gateway it has lost the network it was promised.
        return is_up and (not self._gateway or gateway_container.is_open(self._gateway))

    def terminate(self) -> None:
        if self._id:
            with engine_errors(self._id):
                remove(client().remove_container, self._id, force=True, v=True)
        if self._gateway:
            gateway_container.close_gateway(self._gateway)

    def denied(self, policy: NetworkPolicy) -> tuple[Target, ...]:
        if self._gateway and gateway.is_needed(policy):
            return gateway.targets(policy, self.handle["address"])
        return super().denied(policy)

    def set_network(self, policy: NetworkPolicy) -> None:
        if self._has_secrets:
            raise SandboxUnsupported(FIXED_BY_SECRETS)
        if gateway.is_needed(policy) or (self._gateway and policy.default is NetworkDefault.ALLOW):
            raise SandboxUnsupported("A sandbox's host lists are fixed when it is created")
        if self.handle["runtime"] == gateway.GVISOR:
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
        labels = {**mine["Config"]["Labels"]}
        labels.pop(gateway_container.LABEL, None)
        copy = client().create_container(mine["Image"], entrypoint=KEEPER, labels=labels)["Id"]
        try:
            client().put_archive(copy, "/", _empty_folder(guest.KEPT.strip("/")))
            client().put_archive(copy, guest.KEPT, files)
            client().commit(copy, repository="omniweb-snapshot", tag=self._name)
        finally:
            client().remove_container(copy, force=True, v=True)


def _secret_files(manifest: Manifest) -> dict[str, str]:
    """Return the variables that tell commands where their secrets are."""
    return {f"{name}_FILE": f"{SECRET_FOLDER}/{name}" for name in manifest.environment.secret_refs}


def _labels(owner: Owner) -> dict[str, str]:
    return {SANDBOX: owner.sandbox, RUN: owner.run, INSTALL: owner.install}


def _gateway_label(handle: Handle) -> dict[str, str]:
    return {gateway_container.LABEL: handle["gateway"]} if "gateway" in handle else {}


def _network(manifest: Manifest, handle: Handle) -> dict[str, Any]:
    """Return where a container is connected, and whom it asks for names."""
    if "gateway" not in handle:
        return {"network_mode": NETWORKS[manifest.network_policy.default]}
    # The engine's own name server passes on to this one alone. No name is tried with an ending.
    return {
        "network_mode": handle["gateway"],
        "dns": [handle["address"]],
        "dns_search": ["."],
    }


def _is_gateway(container: Mapping[str, Any]) -> bool:
    names: list[str] = container["Names"]
    return names == [f"/{container['Labels'].get(gateway_container.LABEL)}"]


def _owned(one: Mapping[str, Any], gateways: Mapping[str, str]) -> Owned:
    """Return a sandbox as the engine lists its container, or what is left of one without."""
    labels = one["Labels"]
    handle = {"container": one.get("Id", ""), "runtime": ""}
    if way_out := labels.get(gateway_container.LABEL):
        handle["gateway"] = way_out
    is_up = one.get("State") == "running"
    created = one.get("Created")
    return Owned(
        handle=handle,
        run=labels.get(RUN, ""),
        sandbox=labels.get(SANDBOX, ""),
        running=is_up and (not way_out or gateways.get(way_out) == "running"),
        created_at=datetime.fromtimestamp(created, UTC) if created else None,
    )


def _start(sandbox: DockerSandbox, manifest: Manifest, image: str) -> None:
    """Start a new container and see that it can be worked in, and what ways out it has."""
    try:
        with engine_errors():
            client().start(sandbox.handle["container"])
        tables = sandbox.chore(guest.ready(manifest.working_dir), about=manifest.working_dir)
    except BaseException as error:
        if _cannot_live(error):
            raise SandboxUnsupported(
                f"The image {image} cannot be a sandbox: it needs sh and sleep"
            ) from error
        raise
    policy = manifest.network_policy
    if isolation.is_required(policy) and not gateway.is_needed(policy):
        sandbox.isolation = _isolated(tables)


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
