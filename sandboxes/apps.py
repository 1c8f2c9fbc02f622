"""The sandboxes app."""

from __future__ import annotations

from django.apps import AppConfig


class SandboxesConfig(AppConfig):
    """Registers the room's topics."""

    name = "sandboxes"
