"""Sandboxes of Vercel, through its SDK (requirement document 1, "Vercel")."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from vercel.sandbox import sync as vercel

from omniweb.core.errors import (
    OmniWebError,
    ProviderError,
    ProviderMissing,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes import capabilities
from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy, cpu_count, memory_bytes
from sandboxes.providers import vercel_sdk
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider
from sandboxes.providers.delivery import FIXED_BY_SECRETS, GivenSecret, headers_by_host
from sandboxes.providers.hosted import HostedSandbox
from sandboxes.providers.limits import MAX_FILE_BYTES, MAX_PATH_BYTES, MIB
from sandboxes.providers.paths import confined
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known, again, within
from sandboxes.providers.spec import ProviderSpec
from sandboxes.providers.vercel_sdk import VercelProcess

SANDBOX, RUN, INSTALL = "omniweb-sandbox", "omniweb-run", "omniweb-install"
REQUEST_SECONDS = 60.0
CREATE_SECONDS = 300.0
LOOK_SECONDS = 0.5
# What a download's path may hold; the rest is read by a command.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._ -]+")
RUNNING = vercel.SandboxStatus.RUNNING


class VercelProvider(SandboxProvider):
    """One Vercel sandbox for each run; making the provider calls nobody."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        super().__init__(spec, options)
        self.known: Known[vercel.SyncSandboxRuntimeSession] = Known()
        self._clients: Known[vercel.SyncSandboxClient] = Known(1)
        self._lock = threading.Lock()

    def _create(self, manifest: Manifest, owner: Owner) -> VercelSandbox:
        return self._create_given(manifest, owner, ())

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> VercelSandbox:
        wanted = self._wanted(manifest, owner)
        wanted["network_policy"] = _network(manifest.network_policy, given)
        hidden = [one.value for one in given]
        try:
            # Under one name there is one sandbox, however often it is asked for.
            again(lambda: self._made(wanted, hidden))
            sandbox = self.attach({"sandbox": wanted["name"]}, manifest)
            sandbox.prepare()
        except BaseException:
            # An attempt whose answer was lost may have made one all the same.
            with suppress(OmniWebError):
                self.attach({"sandbox": wanted["name"]}, manifest).terminate()
            raise
        return sandbox

    def _wanted(self, manifest: Manifest, owner: Owner) -> dict[str, Any]:
        return {
            "name": f"omniweb-{secrets.token_hex(8)}",
            "image": manifest.image or self.options["image"],
            "execution_time_limit": timedelta(seconds=self.options["timeout_seconds"]),
            "resources": _resources(manifest),
            # Kept, it would be started again by whatever is asked of it.
            "persistent": False,
            "env": dict(manifest.environment.plain),
            "tags": {INSTALL: owner.install, RUN: owner.run, SANDBOX: owner.sandbox},
            # What listens in there is nobody's to look at.
            "ports": [],
            "destroy": False,
        }

    def _made(self, wanted: Mapping[str, Any], hidden: Sequence[str]) -> None:
        def make() -> None:
            try:
                self.client().create_sandbox(**wanted)
            except vercel.SandboxApiError as error:
                # 409: the answer to an attempt before was lost.
                if error.status_code != 409:
                    raise
                self._await(wanted["name"])

        with self.calls(refused=SandboxUnsupported, hidden=hidden):
            within(CREATE_SECONDS, make, "Making a Vercel sandbox")

    def _await(self, name: str) -> None:
        """Wait for a sandbox that is being made."""
        deadline = time.monotonic() + CREATE_SECONDS
        while self.client().get_sandbox(name=name).status == vercel.SandboxStatus.PENDING:
            if time.monotonic() > deadline:
                raise ProviderUnavailable(f"The sandbox {name} does not become ready")
            time.sleep(LOOK_SECONDS)

    def attach(self, handle: Handle, manifest: Manifest) -> VercelSandbox:
        return VercelSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        # One tag is all that can be asked for.
        tag = vercel.TagFilter(key=INSTALL, value=install)
        query = vercel.SandboxQueryByCreatedAt(tag=tag)
        found = self.ask(lambda: list(self.client().query_sandboxes(query=query)))
        tagged = [(one, one.tags or {}) for one in found]
        return [
            Owned(
                handle={"sandbox": one.name},
                run=tags.get(RUN, ""),
                sandbox=tags.get(SANDBOX, ""),
                running=one.status == RUNNING,
                created_at=_moment(one.created_at),
            )
            for one, tags in tagged
            if run is None or tags.get(RUN) == run
        ]

    def check(self) -> str:
        self.ask(lambda: next(iter(self.client().query_sandboxes(page_size=1)), None))
        return "Vercel answers and takes the token"

    def ask[T](self, act: Callable[[], T]) -> T:
        """Return what an act returns that may be done twice; raises the provider's errors."""

        def asked() -> T:
            with self.calls():
                return within(REQUEST_SECONDS, act, "A request to Vercel")

        return again(asked)

    def client(self) -> vercel.SyncSandboxClient:
        """Return the SDK's client for the options, or the environment as it is now."""
        token, team, project = self._credentials()
        if not (token and team and project):
            raise ProviderMissing(
                "Vercel needs a token, its team and a project: set VERCEL_TOKEN, VERCEL_TEAM_ID "
                "and VERCEL_PROJECT_ID, or the option project_id"
            )
        url = os.environ.get("VERCEL_API_URL")
        with self._lock:
            name = repr((token, team, project, url))
            if kept := self._clients.get(name):
                return kept
            made = vercel_sdk.client(token, team, project, url)
            # It keeps connections, which nobody else would close.
            weakref.finalize(self, made.close)
            return self._clients.keep(name, made)

    def _credentials(self) -> tuple[str | None, str | None, str | None]:
        project = self.options["project_id"] or os.environ.get("VERCEL_PROJECT_ID")
        return os.environ.get("VERCEL_TOKEN"), os.environ.get("VERCEL_TEAM_ID"), project

    def calls(
        self, refused: type[ProviderError] = ProviderError, hidden: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
        return vercel_sdk.calls(refused, (self._credentials()[0], *hidden))

    def found(self, sandbox: str) -> vercel.SyncSandbox:
        """Return the SDK's sandbox of a name as it is now, without waking it; raises SandboxLost."""
        return self.ask(lambda: self.client().get_sandbox(name=sandbox))


class VercelSandbox(HostedSandbox[vercel.SyncSandbox]):
    """One Vercel sandbox, found by its name, in the session that it was made with."""

    def __init__(self, provider: VercelProvider, handle: Handle, manifest: Manifest) -> None:
        super().__init__(provider, handle, manifest)
        self._provider = provider

    def prepare(self) -> None:
        """Make the working directory, the commands' user its owner, where the image has none."""
        session = self.inside()
        ids = 'cd -- "$0" 2> /dev/null && [ -w . ] || { id -u; id -g; }'
        make = '[ -d "$0" ] || { mkdir -p -- "$0" && chown "$1:$2" "$0"; }'
        with self.calls(refused=SandboxUnsupported):
            script = ["-c", ids, self._working_dir]
            found = (session.run_process("sh", script, capture_output=True).stdout or "").split()
            if found:
                script = ["-c", make, self._working_dir, *found]
                session.run_process("sh", script, sudo=True, capture_output=True)
        ready = ["sh", "-c", 'cd -- "$0" && [ -w . ]', self._working_dir]
        if self.ran(ready, Output(0, lambda stream, data: None)):
            raise SandboxUnsupported(
                f"The vercel sandbox cannot work in {self._working_dir}: its user may not write there"
            )

    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> VercelProcess:
        return VercelProcess(self, argv, output, env=env, stdin=stdin)

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        full = confined(self._working_dir, path)
        # Found by a command, which knows where links lead; fetched as a file, which is faster.
        place = self.chore(self._files.find(full, limit), about=path, limit=MAX_PATH_BYTES)
        where = place.decode(errors="replace")
        if not PLAIN_PATH.fullmatch(where):
            return super().read_file(path, limit=limit)
        with self.calls():
            data = self.inside().fs.read_bytes(where)
        if len(data) > limit:
            raise TooLarge(f"{path} grew past {limit} bytes while it was read")
        return data

    def inside(self) -> vercel.SyncSandboxRuntimeSession:
        """Return the SDK's session; asked of the sandbox itself, commands would start a new one."""
        if known := self._provider.known.get(self._id):
            return known
        found = self._found()
        session = found.current_session
        if session is None or session.status != RUNNING:
            raise self.lost()
        return self._provider.known.keep(self._id, session)

    def _look(self) -> None:
        self.inside()

    def is_running(self) -> bool:
        try:
            return self._provider.found(self._id).status == RUNNING
        except SandboxLost:
            return False

    def terminate(self) -> None:
        self._provider.known.forget(self._id)
        # Stopped only, it could be woken again.
        with suppress(SandboxLost):
            found = self._provider.found(self._id)
            self._provider.ask(lambda: found.destroy(delete_orphan_snapshots=True))

    def extend(self, seconds: int) -> None:
        session = self.inside()
        with self.calls(refused=SandboxUnsupported):
            session.extend_execution_time_limit(timedelta(seconds=seconds))

    def set_network(self, policy: NetworkPolicy) -> None:
        kept = frozenset({capabilities.Setting.NETWORK_OFF, capabilities.Setting.ALLOWED_HOSTS})
        capabilities.check_when_opened("vercel", kept, Manifest(network_policy=policy))
        if self._has_secrets:
            raise SandboxUnsupported(FIXED_BY_SECRETS)
        found = self._found()
        with self.calls(refused=SandboxUnsupported):
            found.update(network_policy=_network(policy))


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _network(policy: NetworkPolicy, given: Sequence[GivenSecret] = ()) -> vercel.NetworkPolicy:
    """Return a policy in Vercel's words, with the headers that requests get on their way."""
    added = headers_by_host(policy, given)
    is_open = policy.default is NetworkDefault.ALLOW
    if is_open and not added:
        return vercel.NetworkPolicy.allow_all()
    if not is_open and not policy.allowed_hosts:
        return vercel.NetworkPolicy.deny_all()
    # What a custom policy does not name is denied.
    named = ("*",) if is_open else policy.allowed_hosts
    rules = {host: (_adding(headers),) for host, headers in added.items()}
    return vercel.NetworkPolicy.custom(allow={**dict.fromkeys(named, ()), **rules})


def _adding(headers: Mapping[str, str]) -> vercel.NetworkPolicyRule:
    return vercel.NetworkPolicyRule(transform=[vercel.NetworkPolicyTransform(headers=headers)])


def _resources(manifest: Manifest) -> vercel.SandboxResources | None:
    """Return what the manifest limits: whole processors, and memory in MiB."""
    cpu, memory = manifest.resources.cpu, manifest.resources.memory
    if cpu is None and memory is None:
        return None
    processors = None if cpu is None else cpu_count(cpu)
    mebibytes = None if memory is None else memory_bytes(memory)
    if processors is not None and processors != int(processors):
        raise SandboxUnsupported(f"Vercel limits whole processors only: write 1 or 2, not {cpu}")
    if mebibytes is not None and mebibytes % MIB:
        raise SandboxUnsupported(
            f"Vercel limits memory in whole mebibytes: write 512m, not {memory}"
        )
    return vercel.SandboxResources(
        vcpus=None if processors is None else int(processors),
        memory=None if mebibytes is None else mebibytes // MIB,
    )
