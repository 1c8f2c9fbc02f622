"""Sandboxes of Daytona, through its SDK (requirement document 1, "Daytona")."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any

import daytona

from omniweb.core.errors import (
    Conflict,
    OmniWebError,
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes import capabilities
from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy, cpu_count, memory_bytes
from sandboxes.providers import daytona_sdk, daytona_secrets
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider
from sandboxes.providers.daytona_sdk import REQUEST_SECONDS, TRANSFER_SECONDS, DaytonaProcess
from sandboxes.providers.delivery import GivenSecret
from sandboxes.providers.hosted import HostedSandbox
from sandboxes.providers.limits import GIB, MAX_FILE_BYTES, MAX_PATH_BYTES
from sandboxes.providers.paths import confined
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known, again, within
from sandboxes.providers.spec import ProviderSpec

SANDBOX, RUN, INSTALL = "omniweb.sandbox", "omniweb.run", "omniweb.install"
# Whose name the secrets begin with that Daytona keeps for a sandbox; to be forgotten after it.
SECRETS_OF = "omniweb.secrets"
# An image is built at its first use; the worker gives up a little later.
CREATE_SECONDS = 540.0
END_SECONDS = 120.0
# A sandbox that nobody ends, because everything of ours is gone, ends by itself.
LONGEST_MINUTES = 24 * 60
KEPT = "omniweb-snapshot-"
# Downloads are told apart by names in a header, which does not hold all that files are called.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._ -]+")
State = daytona.SandboxState
ASLEEP = (State.PAUSED, State.PAUSING)
GONE = (State.DESTROYED, State.DESTROYING, State.ERROR, State.BUILD_FAILED, State.STOPPED)


class DaytonaProvider(SandboxProvider):
    """One ephemeral Daytona sandbox for each run; making the provider calls nobody."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        super().__init__(spec, options)
        self.known: Known[daytona.Sandbox] = Known()
        self._clients: Known[daytona.Daytona] = Known(1)
        self._lock = threading.Lock()

    def _create(self, manifest: Manifest, owner: Owner) -> DaytonaSandbox:
        return self._create_given(manifest, owner, ())

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> DaytonaSandbox:
        wanted = self._wanted(manifest, owner)
        name = str(wanted.name)
        try:
            if given:
                wanted.secrets = daytona_secrets.variables(name, given)
                wanted.labels[SECRETS_OF] = name
                self._keep(name, given, owner)
            # Under one name there is one sandbox, however often it is asked for.
            made = again(lambda: self._made(wanted))
        except OmniWebError:
            # The last attempt may have made one all the same, and one whose image failed stays.
            with suppress(OmniWebError):
                self._forsake(owner, name)
            if given:
                with suppress(OmniWebError):
                    self.forget(name)
            raise
        self.known.keep(made.id, made)
        secrets_of = {"secrets_of": name} if given else {}
        sandbox = self.attach({"sandbox": made.id, **secrets_of}, manifest)
        try:
            sandbox.prepare()
        except BaseException:
            with suppress(OmniWebError):
                sandbox.terminate()
            raise
        return sandbox

    def _wanted(self, manifest: Manifest, owner: Owner) -> Any:
        image = manifest.image or self.options["image"]
        common: dict[str, Any] = {
            "name": f"{daytona_secrets.OURS}{secrets.token_hex(8)}",
            "labels": {INSTALL: owner.install, RUN: owner.run, SANDBOX: owner.sandbox},
            "env_vars": dict(manifest.environment.plain),
            # What listens in there is nobody's to look at.
            "public": False,
            # Deleted as soon as it stops, and stopped by nothing but us and its longest time.
            "ephemeral": True,
            "auto_stop_interval": 0,
            "ttl_minutes": LONGEST_MINUTES,
            **_network(manifest.network_policy),
        }
        if image.startswith(KEPT):
            return daytona.CreateSandboxFromSnapshotParams(snapshot=image, **common)
        resources = _resources(manifest)
        return daytona.CreateSandboxFromImageParams(image=image, resources=resources, **common)

    def _made(self, wanted: Any) -> daytona.Sandbox:
        def make() -> daytona.Sandbox:
            client = self.client()
            try:
                # Any other time limit would be kept with SIGALRM, or an exception in this thread.
                return client.create(wanted, timeout=0)
            except daytona.DaytonaConflictError:
                # The answer to an attempt before was lost.
                found = client.get(wanted.name, request_timeout=REQUEST_SECONDS)
                found.wait_for_sandbox_start(timeout=0)
                return found

        with self.calls(refused=SandboxUnsupported):
            return within(CREATE_SECONDS, make, "Making a Daytona sandbox")

    def _keep(self, name: str, given: Sequence[GivenSecret], owner: Owner) -> None:
        """Have Daytona keep a sandbox's secrets, apart from it as it wants them."""

        def kept() -> None:
            with self.calls(refused=SandboxUnsupported, hidden=[one.value for one in given]):
                keep = partial(daytona_secrets.keep, self.client(), name, given, owner)
                within(REQUEST_SECONDS, keep, "Keeping secrets at Daytona")

        again(kept)

    def forget(self, name: str) -> None:
        """Have Daytona forget the secrets it kept for a sandbox of that name."""
        forget = partial(daytona_secrets.forget, self.client(), name)
        self.ask(lambda: within(REQUEST_SECONDS, forget, "Forgetting secrets at Daytona"))

    def _forsake(self, owner: Owner, name: str) -> None:
        for one in self._listed({INSTALL: owner.install, RUN: owner.run}):
            if one.name == name:
                self.attach({"sandbox": one.id}, Manifest()).terminate()

    def attach(self, handle: Handle, manifest: Manifest) -> DaytonaSandbox:
        return DaytonaSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        found = self._listed({INSTALL: install, **({RUN: run} if run else {})})
        return [*map(_owned, found), *self._left(install, run, {one.name for one in found})]

    def _left(self, install: str, run: str | None, living: Set[str]) -> Iterator[Owned]:
        """Yield what is left of sandboxes without them: the secrets that were kept for each."""

        def listed() -> Mapping[str, Owner]:
            kept = partial(daytona_secrets.kept, self.client(), install)
            return within(REQUEST_SECONDS, kept, "Listing secrets at Daytona")

        try:
            kept = self.ask(listed)
        except ProviderUnavailable:
            raise
        except ProviderError:
            # A key that may not see secrets has kept none.
            return
        for name, owner in kept.items():
            if name not in living and run in (None, owner.run):
                handle = {"sandbox": "", "secrets_of": name}
                yield Owned(handle=handle, run=owner.run, sandbox=owner.sandbox, running=False)

    def _listed(self, labels: Mapping[str, str]) -> list[daytona.Sandbox]:
        query = daytona.ListSandboxesQuery(labels=dict(labels))

        def listed() -> list[daytona.Sandbox]:
            return list(self.client().list(query, request_timeout=REQUEST_SECONDS))

        return self.ask(listed)

    def check(self) -> str:
        query = daytona.ListSandboxesQuery(limit=1)
        self.ask(lambda: next(self.client().list(query, request_timeout=REQUEST_SECONDS), None))
        return "Daytona answers and takes the key"

    def ask[T](self, act: Callable[[], T]) -> T:
        """Return what an act returns that may be done twice; raises the provider's errors."""

        def asked() -> T:
            with self.calls():
                return act()

        return again(asked)

    def client(self) -> daytona.Daytona:
        """Return the SDK's client for the options, or the environment as it is now."""
        url, target = (self._setting(name) for name in ("api_url", "target"))
        key = self._key()
        with self._lock:
            name = repr((key, url, target))
            kept = self._clients.get(name)
            return kept or self._clients.keep(name, daytona_sdk.client(key, url, target))

    def _setting(self, name: str) -> str | None:
        return self.options[name] or os.environ.get(f"DAYTONA_{name.upper()}")

    def _key(self) -> str | None:
        return self._setting("api_key")

    def calls(
        self, refused: type[ProviderError] = ProviderError, hidden: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
        return daytona_sdk.calls(refused, (self._key(), *hidden))

    def found(self, sandbox: str) -> daytona.Sandbox:
        """Return the SDK's sandbox of an id as it is now; raises SandboxLost."""
        return self.ask(lambda: self.client().get(sandbox, request_timeout=REQUEST_SECONDS))


class DaytonaSandbox(HostedSandbox[daytona.Sandbox]):
    """One Daytona sandbox, found by its id."""

    def __init__(self, provider: DaytonaProvider, handle: Handle, manifest: Manifest) -> None:
        super().__init__(provider, handle, manifest)
        self._provider = provider

    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> DaytonaProcess:
        return DaytonaProcess(self, argv, output, env=env, stdin=stdin)

    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        full = confined(self._working_dir, path)
        # Found by a command, which knows where links lead; fetched as a file, which is faster.
        place = self.chore(self._files.find(full, limit), about=path, limit=MAX_PATH_BYTES)
        where = place.decode(errors="replace")
        if not PLAIN_PATH.fullmatch(where):
            return super().read_file(path, limit=limit)
        with self.calls():
            data = self.inside().fs.download_file(where, TRANSFER_SECONDS)
        if len(data) > limit:
            raise TooLarge(f"{path} grew past {limit} bytes while it was read")
        return bytes(data)

    def inside(self) -> daytona.Sandbox:
        """Return the SDK's sandbox; raises Conflict for a paused one and SandboxLost."""
        if known := self._provider.known.get(self._id):
            return known
        return self._provider.known.keep(self._id, self._awake())

    def _awake(self) -> daytona.Sandbox:
        found = self._found()
        if found.state in ASLEEP:
            raise Conflict(f"The sandbox {self._id} is paused; resume it first")
        if found.state in GONE:
            raise self.lost()
        return found

    def _look(self) -> None:
        self._awake()

    def is_running(self) -> bool:
        try:
            return self._provider.found(self._id).state == State.STARTED
        except SandboxLost:
            return False

    def terminate(self) -> None:
        self._provider.known.forget(self._id)
        secrets_of = self.handle.get("secrets_of", "")
        with suppress(SandboxLost):
            found = self._provider.found(self._id or secrets_of)
            secrets_of = secrets_of or found.labels.get(SECRETS_OF, "")
            if found.state not in (State.DESTROYED, State.DESTROYING):
                self._delete(found)
        if secrets_of:
            self._provider.forget(secrets_of)

    def _delete(self, found: daytona.Sandbox) -> None:
        with suppress(SandboxLost), self._provider.calls():
            within(END_SECONDS, lambda: found.delete(timeout=0), "Ending a Daytona sandbox")

    def extend(self, seconds: int) -> None:
        minutes = -(-seconds // 60)
        with self.calls(refused=SandboxUnsupported):
            self._found().set_ttl(minutes, request_timeout=REQUEST_SECONDS)

    def set_network(self, policy: NetworkPolicy) -> None:
        kept = frozenset({capabilities.Setting.NETWORK_OFF, capabilities.Setting.ALLOWED_HOSTS})
        capabilities.check_when_opened("daytona", kept, Manifest(network_policy=policy))
        with self.calls(refused=SandboxUnsupported):
            self._found().update_network_settings(
                **_network(policy), request_timeout=REQUEST_SECONDS
            )

    def pause(self) -> None:
        found = self._found()
        if found.state in ASLEEP:
            return
        with self._provider.calls(refused=SandboxUnsupported):
            within(END_SECONDS, lambda: found.pause(timeout=0), "Pausing a Daytona sandbox")
        self._provider.known.forget(self._id)

    def resume(self) -> None:
        found = self._found()
        if found.state in ASLEEP:
            with self._provider.calls():
                within(CREATE_SECONDS, lambda: found.start(timeout=0), "Waking a Daytona sandbox")

    def snapshot(self) -> str:
        """Return the name of a snapshot that can be the image of other sandboxes."""
        name, found = f"{KEPT}{secrets.token_hex(8)}", self.inside()
        with self.calls(refused=SandboxUnsupported):
            within(CREATE_SECONDS, lambda: found.create_snapshot(name, timeout=0), "A snapshot")
        return name


def _network(policy: NetworkPolicy) -> dict[str, Any]:
    """Return a policy as Daytona's fields for it."""
    if policy.default is NetworkDefault.ALLOW:
        return {"network_block_all": False}
    if not policy.allowed_hosts:
        return {"network_block_all": True}
    # Blocking all would win over the list; with the list alone, all else is denied.
    return {"network_block_all": False, "domain_allow_list": ",".join(policy.allowed_hosts)}


def _resources(manifest: Manifest) -> daytona.Resources | None:
    """Return what the manifest limits, which Daytona counts in whole numbers only."""
    cpu, memory = manifest.resources.cpu, manifest.resources.memory
    if cpu is None and memory is None:
        return None
    processors = None if cpu is None else cpu_count(cpu)
    gibibytes = None if memory is None else memory_bytes(memory)
    if processors is not None and processors != int(processors):
        raise SandboxUnsupported(f"Daytona limits whole processors only: write 1 or 2, not {cpu}")
    if gibibytes is not None and gibibytes % GIB:
        raise SandboxUnsupported(
            f"Daytona limits memory in whole gibibytes: write 1g, not {memory}"
        )
    return daytona.Resources(
        cpu=None if processors is None else int(processors),
        memory=None if gibibytes is None else gibibytes // GIB,
    )


def _owned(sandbox: daytona.Sandbox) -> Owned:
    created = sandbox.created_at
    return Owned(
        handle={"sandbox": sandbox.id},
        run=sandbox.labels.get(RUN, ""),
        sandbox=sandbox.labels.get(SANDBOX, ""),
        running=sandbox.state == State.STARTED,
        created_at=datetime.fromisoformat(created) if created else None,
    )
