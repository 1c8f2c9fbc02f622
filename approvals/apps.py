"""The approvals app."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """Registers the inbox as a topic."""

    name = "approvals"

    def ready(self) -> None:
        """Let the people of a team hear its inbox."""
        from omniweb.core.realtime import topic_register  # needs loaded settings

        topic_register("inbox", _inbox)


def _inbox(actor: Any, reference: str) -> UUID | None:
    return None if actor.agent else actor.team.id
