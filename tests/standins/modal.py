"""Modal: its control plane, and the command router of each sandbox, at one address."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grpclib import GRPCError, Status
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.standins.place import Place
from tests.standins.rpc import Called, Method, RpcStandin, poured, ready

_READ_BYTES = 64 * 1024
# Output that waits to be read, and output that is kept in case it is asked for again.
_AHEAD_BYTES, _KEPT_BYTES = 1024 * 1024, 64 * 1024 * 1024
_LONGEST = 24 * 60 * 60
_ARGUMENT_BYTES = 128 * 1024
_HOST = re.compile(r"\*|(\*\.)?([a-z0-9_-]+\.)*[a-z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9-_.]{1,63}")
_GONE = (Status.NOT_FOUND, "the task is not running")
_CUT = (Status.UNAVAILABLE, "the connection was cut")
Result = api.GenericResult


class Pipe:
    """One stream of a command, which can be read from any byte of it that is still kept."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.first = self.sent = 0
        self.is_over = False
        self.changed = asyncio.Condition()

    async def keep(self, file: Any) -> None:
        """Keep what comes, not too far ahead of who reads it."""
        os.set_blocking(file.fileno(), False)
        with file:
            while not self.is_over:
                await ready(file.fileno())
                data = os.read(file.fileno(), _READ_BYTES)
                async with self.changed:
                    await self.changed.wait_for(
                        lambda: self.first + len(self.kept) - self.sent < _AHEAD_BYTES
                    )
                    self.kept += data
                    self.is_over = not data
                    self.changed.notify_all()

    async def after(self, offset: int) -> bytes:
        """Return what comes after so many bytes, nothing at the end."""
        async with self.changed:
            self.sent = max(self.sent, offset)
            if len(self.kept) > _KEPT_BYTES:
                self.first += _KEPT_BYTES // 2
                del self.kept[: _KEPT_BYTES // 2]
            self.changed.notify_all()
            await self.changed.wait_for(
                lambda: self.is_over or self.first + len(self.kept) > offset
            )
            return bytes(self.kept[offset - self.first :][:_READ_BYTES])


@dataclass
class Running:
    """A command, its output so far, and how it ended."""

    process: subprocess.Popen[bytes]
    pipes: dict[int, Pipe]
    written: int = 0
    code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def watch(self) -> None:
        """Wait for its end."""
        handle = os.pidfd_open(self.process.pid)
        try:
            await ready(handle)
        finally:
            os.close(handle)
            self.code = self.process.wait()
            if self.process.stdin:
                self.process.stdin.close()
        self.ended.set()

    def kill(self) -> None:
        """Kill the command and what is in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@dataclass
class Sandbox:
    """One sandbox as the vendor knows it."""

    id: str
    wanted: Any
    env: dict[str, str]
    place: Place
    created: float = field(default_factory=time.time)
    task: str = field(default_factory=lambda: f"ta-{secrets.token_hex(11)}V")
    status: Any = Result.GENERIC_STATUS_UNSPECIFIED
    running: dict[str, Running] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    # What those who wait for something of it are told when that is cut short.
    cut: asyncio.Future[tuple[Status, str]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def definition(self) -> Any:
        """Return what it was made of."""
        return self.wanted.definition

    @property
    def tags(self) -> dict[str, str]:
        """Return its tags."""
        return {tag.tag_name: tag.tag_value for tag in self.wanted.tags}


class Modal(RpcStandin):
    """The vendor's service; set its attributes to have it behave otherwise."""

    services = (ModalClientBase, TaskCommandRouterBase)
    details = custom_detail_codec

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {}
        self.variables = {
            "MODAL_TOKEN_ID": "ak-" + secrets.token_hex(11),
            "MODAL_TOKEN_SECRET": "as-" + secrets.token_hex(11),
        }
        self.addresses = {"MODAL_SERVER_URL": self.url, "MODAL_CONFIG_PATH": "/nowhere/modal.toml"}
        self.created: list[dict[str, Any]] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.reaches_internet = False
        self.has_python = True
        # Ids of tokens it takes; any, while there are none.
        self.keys: set[str] = set()
        self.page = 100
        self.is_ready = True
        # Images of a registry it finds; any, while there are none.
        self.registry: set[str] = set()
        self._apps: dict[str, str] = {}
        self._images: dict[str, str] = {}
        self._made: dict[str, Any] = {}
        self._tokens: set[str] = set()

    @property
    def living(self) -> set[str]:
        """Return the ids of those that have not ended."""
        return {one.id for one in self.sandboxes.values() if not one.status}

    def stop(self) -> None:
        """End all sandboxes and stop listening."""
        if self._thread.is_alive():
            for one in self.living:
                self.lose(one)
        super().stop()

    def lose(self, sandbox: str) -> None:
        """End a sandbox; what runs in it is cut off without a word."""
        self.do(self._end(self.sandboxes[sandbox], Result.GENERIC_STATUS_TERMINATED))

    def expire(self, sandbox: str) -> None:
        """End a sandbox as at the end of its lifetime."""
        self.do(self._end(self.sandboxes[sandbox], Result.GENERIC_STATUS_TIMEOUT))

    def cut(self) -> None:
        """Cut every answer of a command router that is on its way; commands run on."""

        async def cut() -> None:
            for one in self.sandboxes.values():
                one.cut.set_result(_CUT)
                one.cut = asyncio.get_running_loop().create_future()

        self.do(cut())

    async def _end(self, sandbox: Sandbox, status: Any) -> None:
        if sandbox.status:
            return
        sandbox.status = status
        if sandbox.timer:
            sandbox.timer.cancel()
        sandbox.cut.set_result(_GONE)
        for running in sandbox.running.values():
            running.kill()
            for task in running.tasks:
                task.cancel()
        await asyncio.to_thread(sandbox.place.end)

    async def _unless_cut(self, sandbox: Sandbox, act: Coroutine[Any, Any, Any]) -> Any:
        """Return what comes of waiting, unless it is cut short."""
        cut, acting = sandbox.cut, asyncio.ensure_future(act)
        try:
            await asyncio.wait({acting, cut}, return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                raise GRPCError(*cut.result())
            return acting.result()
        finally:
            acting.cancel()

    # The control plane

    async def serve(self, name: str, stream: Any) -> None:
        """Answer one call, if it comes with the credentials it needs."""
        if bearer := stream.metadata.get("authorization"):
            if bearer.removeprefix("Bearer ") not in self._tokens:
                raise GRPCError(Status.UNAUTHENTICATED, "the router does not take the token")
        else:
            token = stream.metadata.get("x-modal-token-id")
            if not token or (self.keys and token not in self.keys):
                raise GRPCError(Status.UNAUTHENTICATED, f"Token ID is malformed: {token}")
            if (
                name.endswith("V2")
                and stream.metadata.get("x-modal-auth-token") not in self._tokens
            ):
                raise GRPCError(Status.UNAUTHENTICATED, "x-modal-auth-token is missing")
        await super().serve(name, stream)

    def _token(self) -> str:
        """Return a new token, good for an hour."""
        payload = json.dumps({"exp": time.time() + 3600, "jti": secrets.token_hex(8)}).encode()
        token = f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.signature"
        self._tokens.add(token)
        return token

    async def _hello(self, called: Called, stream: Any) -> Any:
        return api.ClientHelloResponse()

    async def _auth_token(self, called: Called, stream: Any) -> Any:
        return api.AuthTokenGetResponse(token=self._token())

    async def _environment(self, called: Called, stream: Any) -> Any:
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-main", metadata=metadata)

    async def _app(self, called: Called, stream: Any) -> Any:
        name = called.request.app_name
        if name not in self._apps:
            if called.request.object_creation_type != api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"App '{name}' not found")
            self._apps[name] = f"ap-{secrets.token_hex(11)}"
        return api.AppGetOrCreateResponse(app_id=self._apps[name])

    async def _image(self, called: Called, stream: Any) -> Any:
        [base] = [
            line.removeprefix("FROM ")
            for line in called.request.image.dockerfile_commands
            if line.startswith("FROM ")
        ]
        image = f"im-{secrets.token_hex(11)}"
        result = Result(status=Result.GENERIC_STATUS_SUCCESS)
        if self.registry and base not in self.registry:
            said = f"{base}: not found in the registry"
            result = Result(status=Result.GENERIC_STATUS_FAILURE, exception=said)
        self._images[image] = base
        return api.ImageGetOrCreateResponse(image_id=image, result=result)

    async def _known_image(self, called: Called, stream: Any) -> Any:
        if called.request.image_id not in self._images:
            raise GRPCError(Status.NOT_FOUND, f"Image {called.request.image_id} not found")
        return api.ImageFromIdResponse(image_id=called.request.image_id)

    async def _create(self, called: Called, stream: Any) -> Any:
        key = called.metadata["x-idempotency-key"]
        if key not in self._made:
            self._made[key] = await self._created(called)
        return self._made[key]

    async def _created(self, called: Called) -> Any:
        wanted = called.request
        definition = wanted.definition
        network = _network(definition.network_access)
        if not 0 < definition.timeout_secs <= _LONGEST:
            raise GRPCError(Status.INVALID_ARGUMENT, "timeout must be between 1s and 24h")
        if self._named(wanted.app_id, definition.name):
            raise GRPCError(Status.ALREADY_EXISTS, f"Sandbox {definition.name} already exists")
        if not all(_NAME.fullmatch(tag.tag_name) for tag in wanted.tags):
            raise GRPCError(Status.INVALID_ARGUMENT, "a tag has no such name")
        env = dict(_env(wanted.secret_sources))
        place = await asyncio.to_thread(
            Place, user="root", uid=0, has_python=self.has_python, network=self._reach(network)
        )
        # Not of the length that the first kind of sandbox has.
        sandbox = Sandbox(id=f"sb-{secrets.token_hex(16)}", wanted=wanted, env=env, place=place)
        self.sandboxes[sandbox.id] = sandbox
        sandbox.timer = asyncio.get_running_loop().call_later(
            definition.timeout_secs,
            lambda: asyncio.ensure_future(self._end(sandbox, Result.GENERIC_STATUS_TIMEOUT)),
        )
        self._note(sandbox, network, called)
        return api.SandboxCreateV2Response(
            sandbox_id=sandbox.id,
            task_id=sandbox.task,
            metadata=api.SandboxHandleMetadata(app_id=wanted.app_id),
            command_router_access=api.CommandRouterAccess(url=self.url, jwt=self._token()),
        )

    def _note(self, sandbox: Sandbox, network: str | list[str], called: Called) -> None:
        """Keep what it was asked for, in the words of the SDK."""
        definition, resources = sandbox.definition, sandbox.definition.resources
        self.created.append(
            {
                "id": sandbox.id,
                "name": definition.name,
                "app": next(
                    name for name, app in self._apps.items() if app == sandbox.wanted.app_id
                ),
                "image": self._images[definition.image_id],
                "image_id": definition.image_id,
                "command": list(definition.entrypoint_args),
                "lifetime": definition.timeout_secs,
                "env": sandbox.env,
                "tags": sandbox.tags,
                "network": {"all": "on", "nothing": "off"}.get(str(network), "listed"),
                "block_network": network == "nothing",
                "outbound_domain_allowlist": network if isinstance(network, list) else None,
                "cpu": (resources.milli_cpu, resources.milli_cpu_max),
                "memory": (resources.memory_mb, resources.memory_mb_max),
                "ports": [port.port for port in definition.open_ports.ports],
                "key": called.metadata["x-modal-token-id"],
            }
        )

    def _reach(self, network: str | list[str]) -> str | list[str]:
        return "all" if self.reaches_internet else network

    def _named(self, app: str, name: str) -> Sandbox | None:
        for one in self.sandboxes.values():
            if not one.status and (one.wanted.app_id, one.definition.name) == (app, name):
                return one
        return None

    def _found(self, called: Called) -> Sandbox:
        sandbox = called.request.sandbox_id
        if sandbox not in self.sandboxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox} not found")
        return self.sandboxes[sandbox]

    async def _by_name(self, called: Called, stream: Any) -> Any:
        app = self._apps.get(called.request.app_name, "")
        found = self._named(app, called.request.sandbox_name)
        if found is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {called.request.sandbox_name} not found")
        return api.SandboxGetFromNameResponse(sandbox_id=found.id)

    async def _wait(self, called: Called, stream: Any) -> Any:
        sandbox = self._found(called)
        if not sandbox.status and called.request.timeout:
            await asyncio.wait({sandbox.cut}, timeout=called.request.timeout)
        return api.SandboxWaitResponse(result=Result(status=sandbox.status))

    async def _terminate(self, called: Called, stream: Any) -> Any:
        await self._end(self._found(called), Result.GENERIC_STATUS_TERMINATED)
        return api.SandboxTerminateResponse()

    async def _list(self, called: Called, stream: Any) -> Any:
        asked = called.request
        wanted = {tag.tag_name: tag.tag_value for tag in asked.tags}
        found = [
            one
            for one in self.sandboxes.values()
            if one.wanted.app_id == asked.app_id
            and not (one.status and not asked.include_finished)
            and wanted.items() <= one.tags.items()
            and (not asked.before_timestamp or one.created < asked.before_timestamp)
        ]
        found.sort(key=lambda one: -one.created)
        return api.SandboxListResponse(
            sandboxes=[
                api.SandboxInfo(id=one.id, created_at=one.created, app_id=asked.app_id)
                for one in found[: self.page]
            ]
        )

    async def _tags(self, called: Called, stream: Any) -> Any:
        return api.SandboxTagsGetResponse(tags=self._found(called).wanted.tags)

    async def _task_id(self, called: Called, stream: Any) -> Any:
        sandbox = self._found(called)
        if sandbox.status:
            return api.SandboxGetTaskIdResponse(task_result=Result(status=sandbox.status))
        return api.SandboxGetTaskIdResponse(task_id=sandbox.task)

    async def _access(self, called: Called, stream: Any) -> Any:
        if self._found(called).status:
            raise GRPCError(Status.FAILED_PRECONDITION, "Sandbox already finished")
        return api.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=self._token())

    # The command router

    def _task(self, called: Called) -> Sandbox:
        for one in self.sandboxes.values():
            if one.task == called.request.task_id and not one.status:
                return one
        raise GRPCError(*_GONE)

    def _command(self, called: Called) -> tuple[Sandbox, Running]:
        sandbox = self._task(called)
        if called.request.exec_id not in sandbox.running:
            raise GRPCError(Status.NOT_FOUND, "there is no such exec")
        return sandbox, sandbox.running[called.request.exec_id]

    async def _start(self, called: Called, stream: Any) -> Any:
        sandbox, asked = self._task(called), called.request
        if not self.is_ready:
            await self._unless_cut(sandbox, asyncio.sleep(3600))
        if sum(len(one.encode()) for one in asked.command_args) > _ARGUMENT_BYTES:
            raise GRPCError(Status.INVALID_ARGUMENT, "the arguments are too long")
        # Asked again after a lost answer, it is the same command.
        if asked.exec_id not in sandbox.running:
            process = sandbox.place.start(
                list(asked.command_args),
                env={**sandbox.env, **_env(asked.secret_sources)},
                cwd=asked.workdir or sandbox.place.home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            sandbox.running[asked.exec_id] = _followed(process)
        return router.TaskExecStartResponse()

    async def _read(self, called: Called, stream: Any) -> None:
        sandbox, running = self._command(called)
        pipe, offset = running.pipes[called.request.file_descriptor], called.request.offset
        while data := await self._unless_cut(sandbox, pipe.after(offset)):
            offset += len(data)
            await stream.send_message(router.TaskExecStdioReadResponse(data=data))

    async def _write(self, called: Called, stream: Any) -> Any:
        sandbox, running = self._command(called)
        pipe, asked = running.process.stdin, called.request
        assert pipe is not None
        # Sent again after a lost answer, it is taken once.
        data = asked.data[running.written - asked.offset :]
        try:
            await self._unless_cut(sandbox, poured(pipe.fileno(), data))
        except (BrokenPipeError, ValueError):
            raise GRPCError(Status.FAILED_PRECONDITION, "stdin is closed") from None
        running.written += len(data)
        if asked.eof:
            pipe.close()
        return router.TaskExecStdinWriteResponse()

    async def _exit(self, called: Called, stream: Any) -> Any:
        sandbox, running = self._command(called)
        await self._unless_cut(sandbox, running.ended.wait())
        code = running.code or 0
        if code < 0:
            return router.TaskExecWaitResponse(signal=-code)
        return router.TaskExecWaitResponse(code=code)

    async def _set_network(self, called: Called, stream: Any) -> Any:
        network = _network(called.request.network_access)
        self._task(called).place.allow(self._reach(network))
        return router.TaskSetNetworkAccessResponse()

    async def _snapshot(self, called: Called, stream: Any) -> Any:
        taken = f"im-{secrets.token_hex(11)}"
        self._images[taken] = self._images[self._task(called).definition.image_id]
        return router.TaskSnapshotFilesystemResponse(image_id=taken)

    methods: ClassVar[dict[str, Method]] = {
        "ClientHello": _hello,
        "AuthTokenGet": _auth_token,
        "EnvironmentGetOrCreate": _environment,
        "AppGetOrCreate": _app,
        "ImageGetOrCreate": _image,
        "ImageFromId": _known_image,
        "SandboxCreateV2": _create,
        "SandboxGetFromNameV2": _by_name,
        "SandboxWaitV2": _wait,
        "SandboxTerminateV2": _terminate,
        "SandboxListV2": _list,
        "SandboxTagsGetV2": _tags,
        "SandboxGetTaskIdV2": _task_id,
        "SandboxGetCommandRouterAccess": _access,
        "TaskExecStart": _start,
        "TaskExecStdioRead": _read,
        "TaskExecStdinWrite": _write,
        "TaskExecWait": _exit,
        "TaskSetNetworkAccess": _set_network,
        "TaskSnapshotFilesystem": _snapshot,
    }


def _followed(process: subprocess.Popen[bytes]) -> Running:
    """Return a command whose output is kept and whose end is waited for."""
    descriptors = (
        router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT,
        router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDERR,
    )
    running = Running(process, {one: Pipe() for one in descriptors})
    files = (process.stdout, process.stderr)
    work = [pipe.keep(file) for pipe, file in zip(running.pipes.values(), files, strict=True)]
    running.tasks += [asyncio.ensure_future(one) for one in (*work, running.watch())]
    return running


def _env(sources: Any) -> dict[str, str]:
    return {name: value for one in sources for name, value in one.env.contents.items()}


def _network(access: Any) -> str | list[str]:
    """Return what may be reached; raises what the vendor says to a contradiction."""
    kinds, domains = api.NetworkAccess, list(access.allowed_domains)
    if access.network_access_type == kinds.OPEN:
        return "all"
    if access.network_access_type == kinds.BLOCKED:
        if domains or access.allowed_cidrs:
            raise GRPCError(Status.INVALID_ARGUMENT, "an allowlist with the network blocked")
        return "nothing"
    for domain in domains:
        if not _HOST.fullmatch(domain):
            raise GRPCError(Status.INVALID_ARGUMENT, f"{domain} is no domain")
    return domains or "nothing"


def start() -> Modal:
    """Return the vendor, listening. Raises OSError where no sandbox can be made."""
    vendor = Modal()
    vendor.start()
    return vendor
