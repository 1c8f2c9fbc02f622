"""The accounts app."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """People, teams, agents and tokens."""

    name = "omniweb.accounts"
    label = "accounts"
