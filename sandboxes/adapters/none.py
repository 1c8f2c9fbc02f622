"""A policy without a sandbox: whatever is asked, nothing runs."""

from __future__ import annotations

from typing import NoReturn

from omniweb.core.errors import SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Handle, Owned, Owner, SandboxProvider

REFUSAL = (
    "The provider 'none' executes nothing; give the environment a provider that runs commands, "
    "such as docker"
)


class NoneProvider(SandboxProvider):
    """Refuses every sandbox, so that a rule that requires one is never satisfied."""

    def _create(self, manifest: Manifest, owner: Owner) -> NoReturn:
        raise SandboxUnsupported(REFUSAL)

    def attach(self, handle: Handle, manifest: Manifest) -> NoReturn:
        raise SandboxUnsupported(REFUSAL)

    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        return []

    def check(self) -> str:
        return "runs nothing"
