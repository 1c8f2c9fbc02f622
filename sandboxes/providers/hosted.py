"""A sandbox of a vendor whose SDK keeps it at hand: what does not depend on which vendor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from omniweb.core.errors import (
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
)
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Handle
from sandboxes.providers.pump import Output
from sandboxes.providers.remote import Known
from sandboxes.providers.shell import ShellSandbox
from sandboxes.providers.spec import ProviderSpec


class Vendor[Found](Protocol):
    """What such a sandbox needs of its provider."""

    spec: ProviderSpec
    options: Mapping[str, Any]
    known: Known[Any]

    def found(self, sandbox: str) -> Found:
        """Return the SDK's sandbox as it is now; raises SandboxLost."""

    def calls(
        self, refused: type[ProviderError] = ProviderError, hidden: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Turn what the SDK raises into the provider's errors; `refused` is for a 4xx."""


class HostedSandbox[Found](ShellSandbox):
    """One sandbox, found by its id or name."""

    # An image's own processes may run in it, too.
    only_commands = False

    def __init__(self, provider: Vendor[Found], handle: Handle, manifest: Manifest) -> None:
        self.handle = handle
        self._id: str = handle["sandbox"]
        self._vendor = provider
        self._hidden = tuple(manifest.environment.plain.values())
        self._has_secrets = bool(manifest.environment.secret_refs)
        super().__init__(self._id, manifest.working_dir, provider.options["max_output_bytes"])

    @abstractmethod
    def _look(self) -> object:
        """Look at the sandbox; raises SandboxLost, and Conflict for a paused one."""

    def prepare(self) -> None:
        """Make the working directory; raises SandboxUnsupported where that cannot be done."""
        make = 'mkdir -p -- "$0" && cd -- "$0" && [ -w . ]'
        output = Output(0, lambda stream, data: None)
        if self.ran(["sh", "-c", make, self._working_dir], output):
            raise SandboxUnsupported(
                f"The {self._vendor.spec.name} sandbox cannot work in {self._working_dir}: the "
                "image's user may not write there"
            )

    def _found(self) -> Found:
        try:
            return self._vendor.found(self._id)
        except SandboxLost:
            raise self.lost() from None

    @contextmanager
    def calls(self, refused: type[ProviderError] = ProviderError) -> Iterator[None]:
        """As the provider's, and what goes wrong is looked into: it may be paused, or gone."""
        try:
            with self._vendor.calls(refused, self._hidden):
                yield
        except ProviderError as error:
            self._vendor.known.forget(self._id)
            try:
                self._look()
            except ProviderUnavailable:
                raise error from None
            if isinstance(error, SandboxLost):
                label = self._vendor.spec.label
                raise ProviderError(f"{label} refused: {error.detail}") from None
            raise
