"""The frame as an app, for its management commands."""

from __future__ import annotations

from django.apps import AppConfig


class OmniwebConfig(AppConfig):
    """Commands that reach over all rooms."""

    name = "omniweb"
    label = "omniweb"
