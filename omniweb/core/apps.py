"""The core app."""

from __future__ import annotations

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Registers the system checks."""

    name = "omniweb.core"
    label = "core"

    def ready(self) -> None:
        """Import the checks so that Django knows them."""
        from omniweb.core import checks  # noqa: F401 - registers on import, once apps are ready
