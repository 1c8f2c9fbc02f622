"""What `doctor --provider` runs: the conformance kit, on a provider as this installation has it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from omniweb.core.ids import ref, uuid7
from omniweb.core.installation import installation_id
from omniweb.management.stand_ins import stand_in
from sandboxes.capabilities import Setting
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.base import Owner, SandboxProvider
from sandboxes.providers.registry import open_provider, provider_spec
from sandboxes.providers.spec import ProviderSpec
from sandboxes.services.reconcile import DOCTOR


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is checked: a provider with its options read, and the manifest of its sandboxes."""

    provider: SandboxProvider
    manifest: Manifest


@contextmanager
def subject(
    provider: str, environment: str = "", *, on_stand_in: bool = False
) -> Iterator[Subject]:
    """Give a provider as an environment has it, or with what it takes by default.

    Raises CommandError saying what to do where that is not enough, and what opening a provider
    raises.
    """
    spec = provider_spec(provider)
    if not spec.supports_execution or spec.is_test:
        raise CommandError(f"{spec.label} runs no commands, so there is nothing to check")
    options, fields = _stored(spec, environment) if environment else _default(spec)
    with ExitStack() as opened:
        if on_stand_in:
            options = {**options, **opened.enter_context(stand_in(spec))}
        _insist(spec, options)
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="omniweb-doctor-"))
        if spec.execution_surface == "host" and not environment:
            fields = {**fields, "working_dir": folder}
        yield Subject(provider=open_provider(provider, options), manifest=Manifest.parse(fields))


def owner() -> Owner:
    """Return labels by which the reconciler knows what a doctor that was killed has left behind."""
    return Owner(install=installation_id(), run=ref(DOCTOR, uuid7()), sandbox=ref(DOCTOR, uuid7()))


def _insist(spec: ProviderSpec, options: Mapping[str, Any]) -> None:
    names = [option.name for option in spec.options if option.required]
    if any(not options.get(name) for name in names):
        raise CommandError(
            f"{spec.name} cannot do without {', '.join(names)}: name an environment that has it "
            "with --environment"
        )


def _stored(spec: ProviderSpec, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options and manifest of an environment, by its name or its id."""
    named = Environment.objects.filter(provider=spec.name)
    found = [one for one in named.order_by("id") if name in (one.name, one.ref)]
    if not found:
        known = ", ".join(sorted({one.name for one in named})) or "none"
        raise CommandError(f"No environment {name} uses {spec.name}; there is: {known}")
    if len(found) > 1:
        refs = ", ".join(one.ref for one in found)
        raise CommandError(f"Several teams have an environment {name}; say which: {refs}")
    return found[0].options, found[0].manifest


def _default(spec: ProviderSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    keeps = spec.enforces is None or Setting.NETWORK_OFF in spec.enforces
    options: dict[str, Any] = {}
    if spec.name == "docker":
        options = {"image": settings.DOCKER_IMAGE, "runtime": settings.DOCKER_RUNTIME or None}
    return options, {} if keeps else {"network_policy": {"default": "allow"}}
