"""Sandboxes of Modal, through its SDK (requirement document 1, "Modal")."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import modal

from omniweb.core.errors import (
    OmniWebError,
    ProviderError,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes import capabilities
from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy, cpu_count, memory_bytes
from sandboxes.providers import guest, modal_sdk
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider
from sandboxes.providers.delivery import FIXED_BY_SECRETS, GivenSecret
from sandboxes.providers.hosted import HostedSandbox
from sandboxes.providers.limits import MIB
from sandboxes.providers.modal_sdk import REQUEST_SECONDS, ModalProcess
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known, within
from sandboxes.providers.spec import ProviderSpec

SANDBOX, RUN, INSTALL = "omniweb-sandbox", "omniweb-run", "omniweb-install"
# An image is built at its first use; the worker gives up a little later.
CREATE_SECONDS = 540.0
# What Modal calls an image that is not of a registry, such as a snapshot.
IMAGE_ID = re.compile(r"im-[A-Za-z0-9]+")


class ModalProvider(SandboxProvider):
    """One Modal sandbox for each run; making the provider calls nobody."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        super().__init__(spec, options)
        # Each keeps a connection to where its sandbox is.
        self.known: Known[modal.Sandbox] = Known()

    def _create(self, manifest: Manifest, owner: Owner) -> ModalSandbox:
        return self._create_given(manifest, owner, ())

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> ModalSandbox:
        wanted = self._wanted(manifest, owner)
        try:
            made = self._made(manifest, wanted, {one.name: one.value for one in given})
            self.known.keep(made.object_id, made)
            sandbox = self.attach({"sandbox": made.object_id}, manifest)
            sandbox.prepare()
        except BaseException:
            # An attempt whose answer was lost may have made one all the same.
            with suppress(OmniWebError):
                self._forsake(wanted["name"])
            raise
        return sandbox

    def _wanted(self, manifest: Manifest, owner: Owner) -> dict[str, Any]:
        return {
            "name": f"omniweb-{secrets.token_hex(8)}",
            "tags": {INSTALL: owner.install, RUN: owner.run, SANDBOX: owner.sandbox},
            "env": dict(manifest.environment.plain),
            "timeout": self.options["timeout_seconds"],
            **_network(manifest.network_policy),
            **_resources(manifest),
        }

    def _made(
        self, manifest: Manifest, wanted: Mapping[str, Any], given: Mapping[str, str | None]
    ) -> modal.Sandbox:
        def make() -> modal.Sandbox:
            # An image's own program could end, and the sandbox with it.
            stay = ("sleep", str(self.options["timeout_seconds"]))
            image = _image(manifest.image or self.options["image"])
            # Sent with the sandbox itself, so that Modal keeps none of them by name.
            sealed = [modal.Secret.from_dict(dict(given))] if given else None
            app, client = self._app(), modal_sdk.client()
            made = modal.Sandbox.create(
                *stay, app=app, image=image, client=client, secrets=sealed, **wanted
            )
            # It is there before it runs; the first command waits until it does.
            made.exec(*guest.NOTHING).wait()
            return made

        try:
            hidden = [value for value in given.values() if value]
            with self.calls(refused=SandboxUnsupported, hidden=hidden):
                return within(CREATE_SECONDS, make, "Making a Modal sandbox")
        except SandboxLost as lost:
            raise SandboxUnsupported(f"Modal cannot make the sandbox: {lost.detail}") from None

    def _app(self) -> modal.App:
        name = self.options["app_name"]
        return modal.App.lookup(name, create_if_missing=True, client=modal_sdk.client())

    def _forsake(self, name: str) -> None:
        app = self.options["app_name"]
        with suppress(SandboxLost):
            found = self.ask(lambda: modal.Sandbox.from_name(app, name, client=modal_sdk.client()))
            self.attach({"sandbox": found.object_id}, Manifest()).terminate()

    def attach(self, handle: Handle, manifest: Manifest) -> ModalSandbox:
        return ModalSandbox(self, handle, manifest)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        tags = {INSTALL: install, **({RUN: run} if run else {})}

        def listed() -> list[Owned]:
            app, client = self._app().app_id, modal_sdk.client()
            return [_owned(one) for one in modal.Sandbox.list(app_id=app, tags=tags, client=client)]

        return self.ask(listed)

    def check(self) -> str:
        self.ask(lambda: modal_sdk.client().hello())
        return "Modal answers and takes the token"

    def ask[T](self, act: Callable[[], T]) -> T:
        """Return what an act returns; raises the provider's errors. The SDK itself tries again."""
        with self.calls():
            return within(REQUEST_SECONDS, act, "A request to Modal")

    def calls(
        self, refused: type[ProviderError] = ProviderError, hidden: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Turn what the SDK raises into the provider's errors; `refused` is for what it may not do."""
        return modal_sdk.calls(refused, (*modal_sdk.credentials(), *hidden))

    def found(self, sandbox: str) -> modal.Sandbox:
        """Return the SDK's sandbox of an id, if it is running; raises SandboxLost."""
        found = self.ask(lambda: modal.Sandbox.from_id(sandbox, client=modal_sdk.client()))
        if found.returncode is not None:
            raise SandboxLost(f"The sandbox {sandbox} has ended")
        return found


class ModalSandbox(HostedSandbox[modal.Sandbox]):
    """One Modal sandbox, found by its id."""

    def __init__(self, provider: ModalProvider, handle: Handle, manifest: Manifest) -> None:
        super().__init__(provider, handle, manifest)
        self._provider = provider

    def start(
        self, argv: Sequence[str], output: Output, *, env: Mapping[str, str], stdin: bytes | None
    ) -> ModalProcess:
        return ModalProcess(self, argv, output, env=env, stdin=stdin)

    def inside(self) -> modal.Sandbox:
        """Return the SDK's sandbox; raises SandboxLost and ProviderUnavailable."""
        if known := self._provider.known.get(self._id):
            return known
        return self._provider.known.keep(self._id, self._found())

    def _look(self) -> None:
        self._found()

    def is_running(self) -> bool:
        try:
            self._provider.found(self._id)
        except SandboxLost:
            return False
        return True

    def terminate(self) -> None:
        self._provider.known.forget(self._id)
        with suppress(SandboxLost):
            found = self._provider.found(self._id)
            self._provider.ask(lambda: found.terminate(wait=True))

    def set_network(self, policy: NetworkPolicy) -> None:
        if self._has_secrets:
            raise SandboxUnsupported(FIXED_BY_SECRETS)
        kept = frozenset({capabilities.Setting.NETWORK_OFF, capabilities.Setting.ALLOWED_HOSTS})
        capabilities.check_when_opened("modal", kept, Manifest(network_policy=policy))
        # No list is the whole internet, and an empty one is nothing.
        hosts = None if policy.default is NetworkDefault.ALLOW else list(policy.allowed_hosts)
        change = self.inside()._experimental_set_outbound_network_policy
        with self.calls(refused=SandboxUnsupported):
            within(
                REQUEST_SECONDS,
                lambda: change(outbound_domain_allowlist=hosts),
                "Changing the network of a Modal sandbox",
            )

    def snapshot(self) -> str:
        """Return the id of an image that can be the image of other sandboxes."""
        found, seconds = self.inside(), int(CREATE_SECONDS)
        with self.calls(refused=SandboxUnsupported):
            taken = within(
                CREATE_SECONDS, lambda: found.snapshot_filesystem(seconds, ttl=None), "A snapshot"
            )
        name: str = taken.object_id
        return name


def _owned(sandbox: modal.Sandbox) -> Owned:
    """Return what is known of a sandbox that was listed, so it is running; its tags are asked for."""
    tags = sandbox.get_tags()
    return Owned(
        handle={"sandbox": sandbox.object_id},
        run=tags.get(RUN, ""),
        sandbox=tags.get(SANDBOX, ""),
        running=True,
    )


def _image(name: str) -> modal.Image:
    """Return an image by its id or as it is called in its registry."""
    if IMAGE_ID.fullmatch(name):
        return modal.Image.from_id(name, client=modal_sdk.client())
    return modal.Image.from_registry(name)


def _network(policy: NetworkPolicy) -> dict[str, Any]:
    """Return a policy as Modal's arguments; it takes no list together with `block_network`."""
    if policy.default is NetworkDefault.ALLOW:
        return {}
    if not policy.allowed_hosts:
        return {"block_network": True}
    return {"outbound_domain_allowlist": list(policy.allowed_hosts)}


def _resources(manifest: Manifest) -> dict[str, Any]:
    """Return what the manifest limits, as both the least and the most the sandbox gets."""
    limits: dict[str, Any] = {}
    cpu, memory = manifest.resources.cpu, manifest.resources.memory
    if cpu is not None:
        limits["cpu"] = (float(cpu_count(cpu)), float(cpu_count(cpu)))
    if memory is not None:
        mebibytes, rest = divmod(memory_bytes(memory), MIB)
        if rest:
            raise SandboxUnsupported(
                f"Modal limits memory in whole mebibytes: write 512m, not {memory}"
            )
        limits["memory"] = (mebibytes, mebibytes)
    return limits
