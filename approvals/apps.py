"""The approvals app."""

from __future__ import annotations

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """Registers the room's topics."""

    name = "approvals"
