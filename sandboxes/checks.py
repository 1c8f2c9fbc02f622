"""Misconfiguration of sandboxes, told at the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register

from sandboxes.providers import plugins


@register
def own_providers_are_loaded(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> Sequence[CheckMessage]:
    """Runs in an environment of a provider that is not there would all fail."""
    return [
        Error(
            f"A sandbox provider cannot be loaded: {failure.problem} ({failure.place})",
            hint=(
                "Correct the name or the code it leads to, or remove it: uninstall its package, "
                f"or take it out of {plugins.SETTING} (docs/own-provider.md)."
            ),
            id="omniweb.E101",
        )
        for failure in plugins.failures
    ]
