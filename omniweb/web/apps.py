"""The web app."""

from __future__ import annotations

from django.apps import AppConfig


class WebConfig(AppConfig):
    """Pages that belong to no single room."""

    name = "omniweb.web"
    label = "web"
