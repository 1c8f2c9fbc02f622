"""From rows to live sandboxes: the provider of a run, opened once per process."""

from __future__ import annotations

import json
from functools import lru_cache

from omniweb.core.canonical import canonical_json
from omniweb.core.errors import InvalidInput, ProviderMissing
from omniweb.core.installation import installation_id
from sandboxes.manifest import Manifest
from sandboxes.models import Run, Sandbox
from sandboxes.providers.base import LiveSandbox, Owner, SandboxProvider
from sandboxes.providers.registry import open_provider


def provider_of(run: Run) -> SandboxProvider:
    """Return a run's provider; raises ProviderMissing when it or its SDK is not installed."""
    return _opened(run.provider, canonical_json(run.options).decode())


@lru_cache(maxsize=64)
def _opened(name: str, options: str) -> SandboxProvider:
    try:
        return open_provider(name, json.loads(options))
    except InvalidInput as error:
        # It was fine when its run was opened; a provider of one's own may have gone since.
        raise ProviderMissing(error.detail) from error


def live_sandbox(sandbox: Sandbox) -> LiveSandbox:
    """Return the live sandbox behind a row, from any process; calls nobody yet."""
    manifest = Manifest.parse(sandbox.run.manifest)
    return provider_of(sandbox.run).attach(sandbox.handle, manifest)


def owner_of(sandbox: Sandbox) -> Owner:
    """Return the labels a sandbox carries at its provider."""
    return Owner(install=installation_id(), run=sandbox.run.ref, sandbox=sandbox.ref)
