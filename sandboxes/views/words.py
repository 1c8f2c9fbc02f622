"""Where something runs, in the words of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from omniweb.core.errors import InvalidInput
from sandboxes.models import Environment, Run
from sandboxes.providers import isolation
from sandboxes.providers.registry import provider_spec
from sandboxes.providers.spec import ProviderSpec
from trajectories.patterns import is_secret_name
from trajectories.redaction import redactor

HIDDEN = "(kept, not shown)"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A provider with its options and manifest as a page shows them.

    `is_host` means that commands run on this machine, with nothing in between; `is_unchecked` that
    something is to be out of reach and an option has switched off trying that.
    """

    provider: str
    label: str
    is_host: bool
    image: str
    runtime: str
    network: str
    hosts: tuple[str, ...]
    is_online: bool
    is_unchecked: bool
    working_dir: str


def place_of(at: Run | Environment) -> Place:
    """Return where a run or an environment puts its commands."""
    manifest, options = at.manifest, at.options
    network = manifest.get("network_policy") or {}
    is_open = network.get("default", "deny") == "allow"
    hosts = tuple(network.get("denied_hosts" if is_open else "allowed_hosts") or ())
    spec = spec_or_none(at.provider)
    own_image = options.get("image") or options.get("template") or _default(spec, "image")
    return Place(
        provider=at.provider,
        label=spec.label if spec else at.provider,
        is_host=spec is not None and spec.execution_surface == "host",
        image=manifest.get("image") or own_image or "",
        runtime="gVisor" if options.get("runtime") == "runsc" else options.get("runtime") or "",
        network=_reach(is_open, hosts),
        hosts=hosts,
        is_online=is_open or bool(hosts),
        is_unchecked=(not is_open or bool(hosts)) and options.get(isolation.OPTION) is False,
        working_dir=manifest.get("working_dir", "/workspace"),
    )


def _reach(is_open: bool, hosts: Sequence[str]) -> str:
    if is_open:
        return "all but some hosts" if hosts else "network on"
    return "some hosts only" if hosts else "no network"


def lasted(run: Run) -> timedelta | None:
    """Return how long a run took; None while it has not ended."""
    return run.ended_at - run.created_at if run.ended_at else None


def spec_or_none(provider: str) -> ProviderSpec | None:
    """Return what is known about a provider; None for one this installation no longer has."""
    try:
        return provider_spec(provider)
    except InvalidInput:
        return None


def _default(spec: ProviderSpec | None, name: str) -> Any:
    options = spec.options if spec else ()
    return next((option.default for option in options if option.name == name), None)


def shown_manifest(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with the values of variables that are named like secrets masked."""
    plain = manifest.get("environment", {}).get("plain", {})
    known = [value for name, value in plain.items() if is_secret_name(name)]
    shown: Mapping[str, Any] = redactor(known=known).value(manifest)
    return shown


def shown_options(provider: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the secrets among them replaced by a word."""
    spec = spec_or_none(provider)
    secret = spec.secret_options if spec else frozenset()
    # A provider that declares no options is known by their names only.
    return {
        name: HIDDEN if name in secret or is_secret_name(name) else value
        for name, value in options.items()
    }
