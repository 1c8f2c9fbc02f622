"""The trajectories app."""

from __future__ import annotations

from django.apps import AppConfig


class TrajectoriesConfig(AppConfig):
    """Registers the room's topics."""

    name = "trajectories"
