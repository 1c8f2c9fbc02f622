"""Every provider there is, on one screen each, and the way from a name to a working one.

To add a provider: one entry in TABLE, one module in `sandboxes/adapters/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as replace_fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from omniweb.core.errors import InvalidInput, Problem, ProviderMissing
from sandboxes import capabilities
from sandboxes.manifest import Manifest
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.names import PROVIDER_NAME
from sandboxes.providers.spec import NetworkPromise, ProviderSpec
from sandboxes.providers.table import TABLE

_registered: dict[str, ProviderSpec] = {spec.name: spec for spec in TABLE}
if len(_registered) != len(TABLE):
    raise RuntimeError("two providers share a name")


def provider_specs() -> list[ProviderSpec]:
    """Return what is known about every provider, the built-in ones first."""
    return list(_registered.values())


def provider_spec(name: str) -> ProviderSpec:
    """Return what is known about a provider; raises InvalidInput naming those there are."""
    if isinstance(name, str) and name in _registered:
        return _registered[name]
    message = (
        "governance_config.sandbox_config.provider must be a registered sandbox provider: "
        + ", ".join(sorted(_registered))
    )
    raise InvalidInput(message, problems=[Problem(path="provider", message=message)])


def check_environment(provider: str, options: Mapping[str, Any], manifest: Manifest) -> None:
    """Raise InvalidInput unless the provider exists, takes the options and keeps the manifest.

    Run when an environment is saved; a missing SDK is not looked for, because an environment
    may be prepared before the extra is installed (`check_installed` says that).
    """
    spec = provider_spec(provider)
    values = spec.read_options(options)
    capabilities.check_when_saved(spec.name, spec.enforces, manifest)
    if problems := spec.refuses(values, manifest):
        raise InvalidInput(problems[0].message, problems=problems)


def check_installed(provider: str) -> None:
    """Raise ProviderMissing when the provider's SDK is absent."""
    spec = provider_spec(provider)
    if spec.sdk is not None and find_spec(spec.sdk) is None:
        raise ProviderMissing(spec.missing)


def open_provider(name: str, options: Mapping[str, Any]) -> SandboxProvider:
    """Return the provider, ready to create and attach sandboxes; calls nobody yet.

    Raises InvalidInput for an unknown name or option and ProviderMissing for a missing SDK.
    """
    spec = provider_spec(name)
    values = spec.read_options(options)
    check_installed(name)
    if spec.factory is not None:
        return spec.factory(values)
    module, _, attribute = str(spec.adapter).rpartition(".")
    adapter: type[SandboxProvider] = getattr(import_module(module), attribute)
    return adapter(spec, values)


def satisfies_required_sandbox(name: str, options: Mapping[str, Any]) -> bool:
    """Say whether a rule that requires a sandbox is satisfied by this provider.

    A test runtime counts only where its options say that it may stand in.
    """
    spec = provider_spec(name)
    if spec.is_test:
        return bool(options.get("allow_test_sandbox_runtime"))
    return spec.supports_required_sandbox


def register_sandbox_provider(
    name: str,
    factory: Callable[[Mapping[str, Any]], SandboxProvider],
    *,
    spec: ProviderSpec | None = None,
    replace: bool = False,
) -> None:
    """Add a provider of one's own, made by calling `factory(options)`.

    Without a spec it is taken at its word: everything a manifest asks counts as kept.
    Raises InvalidInput for a name that is taken or cannot be one.
    """
    if not PROVIDER_NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name}' cannot name a provider: use a-z, 0-9, _ and -, a letter first"
        )
    if name in _registered and not replace:
        raise InvalidInput(f"Sandbox provider '{name}' is already registered; pass replace=True")
    if spec is None:
        own = NetworkPromise(
            deny="As it says itself",
            allow="As it says itself",
            allowed_hosts="As it says itself",
            checked_inside="No",
        )
        spec = ProviderSpec(
            name=name,
            label=name,
            summary="Registered by this installation.",
            runs_where="decided by its own code",
            runs_as="decided by its own code",
            network=own,
            enforces=None,
        )
    _registered[name] = replace_fields(spec, name=name, factory=factory)
