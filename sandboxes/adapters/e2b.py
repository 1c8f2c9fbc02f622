"""Sandboxes of E2B, through its SDK (requirement document 1, "E2B")."""

from __future__ import annotations

import hmac
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import e2b

from omniweb.core.clock import now
from omniweb.core.errors import (
    Conflict,
    OmniWebError,
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes import capabilities
from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy
from sandboxes.providers import e2b_sdk, guest
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider
from sandboxes.providers.delivery import FIXED_BY_SECRETS, GivenSecret, headers_by_host
from sandboxes.providers.e2b_sdk import REQUEST_SECONDS, E2bProcess
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known, again
from sandboxes.providers.shell import ShellSandbox
from sandboxes.providers.spec import ProviderSpec

SANDBOX, RUN, INSTALL = "omniweb.sandbox", "omniweb.run", "omniweb.install"
ALL_ADDRESSES = "0.0.0.0/0"


class E2bProvider(SandboxProvider):
    """One E2B sandbox for each run; making the provider calls nobody."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        super().__init__(spec, options)
        # Sandboxes whose connection is kept; making one takes two requests.
        self.known: Known[e2b.Sandbox] = Known()

    def _create(self, manifest: Manifest, owner: Owner) -> E2bSandbox:
        return self._create_given(manifest, owner, ())

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> E2bSandbox:
        template = self._template(manifest)
        try:
            # A lost answer asked for again is the same sandbox.
            key = secrets.token_hex(16)
            made = again(lambda: self._made(template, manifest, owner, key, given))
        except ProviderUnavailable:
            # The last attempt may have made one all the same.
            with suppress(OmniWebError):
                self._forsake(owner)
            raise
        self.known.keep(made.sandbox_id, made)
        sandbox = self.attach({"sandbox": made.sandbox_id}, manifest)
        try:
            sandbox.prepare()
        except BaseException:
            with suppress(OmniWebError):
                sandbox.terminate()
            raise
        return sandbox

    def _made(
        self,
        template: str | None,
        manifest: Manifest,
        owner: Owner,
        key: str,
        given: Sequence[GivenSecret],
    ) -> e2b.Sandbox:
        labels = {INSTALL: owner.install, RUN: owner.run, SANDBOX: owner.sandbox}
        network, internet = _network(manifest.network_policy)
        if added := headers_by_host(manifest.network_policy, given):
            network["rules"] = {
                host: [{"transform": {"headers": headers}}] for host, headers in added.items()
            }
        with self.calls(refused=SandboxUnsupported, hidden=[one.value for one in given]):
            return e2b.Sandbox.create(
                template,
                timeout=self.options["timeout_seconds"],
                metadata=labels,
                envs=dict(manifest.environment.plain),
                allow_internet_access=internet,
                # What listens in there is nobody's to look at.
                network=network | {"allow_public_traffic": False},
                # A sandbox that woke by itself would run on after its end was recorded.
                lifecycle={"on_timeout": "kill", "auto_resume": False},
                idempotency_key=key,
                **self.params(),
            )

    def _forsake(self, owner: Owner) -> None:
        for one in self.list_owned(owner.install, run=owner.run):
            if one.sandbox == owner.sandbox:
                self.attach(one.handle, Manifest()).terminate()

    def _template(self, manifest: Manifest) -> str | None:
        """Return the template to use: one of that name, or one made of the registry's image."""
        image = manifest.image
        if image is None:
            template: str | None = self.options["template"]
            return template
        if not {"/", ":"} & set(image):
            return image
        # Nobody else can guess it, so no template of theirs stands in for the image.
        told = hmac.digest(str(self._key()).encode(), image.encode(), "sha256").hex()
        name = f"omniweb-{told[:16]}"
        with self.calls(refused=SandboxUnsupported):
            if not e2b.Template.exists(name, **self.params()):
                e2b.Template.build(e2b.Template().from_image(image), name, **self.params())
        return name

    def attach(self, handle: Handle, manifest: Manifest) -> E2bSandbox:
        return E2bSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        labels = {INSTALL: install, **({RUN: run} if run else {})}
        found: list[Owned] = []
        with self.calls():
            pages = e2b.Sandbox.list(e2b.SandboxQuery(metadata=labels), **self.params())
            while pages.has_next:
                found += [_owned(one) for one in pages.next_items()]
        return found

    def check(self) -> str:
        with self.calls():
            e2b.Sandbox.list(limit=1, **self.params()).next_items()
        return "E2B answers and takes the key"

    def params(self) -> Any:
        """Return whom every call is made as; raises ProviderMissing for no key."""
        return e2b_sdk.params(self._key())

    def _key(self) -> str | None:
        return self.options["api_key"] or os.environ.get("E2B_API_KEY")

    def calls(
        self, refused: type[ProviderError] = ProviderError, hidden: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""
        return e2b_sdk.calls(refused, (self._key(), *hidden))

    def connected(self, sandbox: str) -> e2b.Sandbox:
        """Return the SDK's sandbox of an id; raises Conflict for a paused one and SandboxLost."""
        if found := self.known.get(sandbox):
            return found
        with self.calls():
            info = e2b.Sandbox.get_info(sandbox, **self.params())
            # Connecting to a paused one would wake it.
            if info.state == e2b.SandboxState.PAUSED:
                raise Conflict(f"The sandbox {sandbox} is paused; resume it first")
            # And would give others more time than they have.
            left = max(1, int((info.end_at - now()).total_seconds()))
            found = e2b.Sandbox.connect(sandbox, timeout=left, **self.params())
        return self.known.keep(sandbox, found)


class E2bSandbox(ShellSandbox):
    """One E2B sandbox, found by its id; the key to what runs in it is asked for, never stored."""

    # A template's own processes may run in it, too.
    only_commands = False

    def __init__(self, provider: E2bProvider, handle: Handle, manifest: Manifest) -> None:
        self.handle = handle
        self._id: str = handle["sandbox"]
        self._provider = provider
        self._hidden = tuple(manifest.environment.plain.values())
        self._has_secrets = bool(manifest.environment.secret_refs)
        super().__init__(self._id, manifest.working_dir, provider.options["max_output_bytes"])

    def prepare(self) -> None:
        """Make the working directory, the commands' user its owner, where the template has none."""
        commands = self.inside().commands
        ids = 'cd -- "$0" 2> /dev/null && [ -w . ] || { id -u; id -g; }'
        make = '[ -d "$0" ] || { mkdir -p -- "$0" && chown "$1:$2" "$0"; }'
        with self.calls(refused=SandboxUnsupported):
            script = shlex.join(["sh", "-c", ids, self._working_dir])
            found = commands.run(script, timeout=REQUEST_SECONDS).stdout.split()
            if found:
                script = shlex.join(["sh", "-c", make, self._working_dir, *found])
                commands.run(script, user="root", timeout=REQUEST_SECONDS)
        self.chore(guest.ready(self._working_dir), about=self._working_dir)

    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> E2bProcess:
        return E2bProcess(self, argv, output, env=env, stdin=stdin)

    def inside(self) -> e2b.Sandbox:
        """Return the SDK's sandbox; raises Conflict, SandboxLost and ProviderUnavailable."""
        with self.calls():
            return self._provider.connected(self._id)

    @contextmanager
    def calls(self, refused: type[ProviderError] = ProviderError) -> Iterator[None]:
        """As the provider's, and a sandbox that does not answer is either paused or gone."""
        try:
            with self._provider.calls(refused, self._hidden):
                yield
        except SandboxLost:
            self._provider.known.forget(self._id)
            with suppress(ProviderError):
                if self._state() == e2b.SandboxState.PAUSED:
                    raise Conflict(f"The sandbox {self._id} is paused; resume it first") from None
            raise self.lost() from None

    def _state(self) -> e2b.SandboxState:
        with self._provider.calls():
            return e2b.Sandbox.get_info(self._id, **self._provider.params()).state

    def is_running(self) -> bool:
        try:
            return self._state() == e2b.SandboxState.RUNNING
        except SandboxLost:
            return False

    def terminate(self) -> None:
        self._provider.known.forget(self._id)
        with self._provider.calls():
            e2b.Sandbox.kill(self._id, **self._provider.params())

    def extend(self, seconds: int) -> None:
        with self.calls(refused=SandboxUnsupported):
            e2b.Sandbox.set_timeout(self._id, seconds, **self._provider.params())

    def set_network(self, policy: NetworkPolicy) -> None:
        kept = frozenset({capabilities.Setting.NETWORK_OFF, capabilities.Setting.ALLOWED_HOSTS})
        capabilities.check_when_opened("e2b", kept, Manifest(network_policy=policy))
        if self._has_secrets:
            raise SandboxUnsupported(FIXED_BY_SECRETS)
        network, internet = _network(policy)
        if internet is not None:
            network["allow_internet_access"] = internet
        with self.calls(refused=SandboxUnsupported):
            e2b.Sandbox.update_network(self._id, network, **self._provider.params())

    def pause(self) -> None:
        with self.calls():
            e2b.Sandbox.pause(self._id, **self._provider.params())
        self._provider.known.forget(self._id)

    def resume(self) -> None:
        with self.calls():
            if self._state() == e2b.SandboxState.PAUSED:
                lifetime = self._provider.options["timeout_seconds"]
                e2b.Sandbox.connect(self._id, timeout=lifetime, **self._provider.params())

    def snapshot(self) -> str:
        """Return the name of a template that holds the sandbox as it is now."""
        with self.calls():
            taken = e2b.Sandbox.create_snapshot(self._id, **self._provider.params())
        name: str = taken.snapshot_id
        return name


def _network(policy: NetworkPolicy) -> tuple[Any, bool | None]:
    """Return a policy as E2B's network lists, and its switch for the internet as a whole."""
    if policy.default is NetworkDefault.ALLOW:
        return {}, True
    if not policy.allowed_hosts:
        return {}, False
    # E2B takes names only where everything else is denied.
    return {"allow_out": list(policy.allowed_hosts), "deny_out": [ALL_ADDRESSES]}, None


def _owned(info: e2b.SandboxInfo) -> Owned:
    return Owned(
        handle={"sandbox": info.sandbox_id},
        run=info.metadata.get(RUN, ""),
        sandbox=info.metadata.get(SANDBOX, ""),
        running=info.state == e2b.SandboxState.RUNNING,
        created_at=info.started_at,
    )
