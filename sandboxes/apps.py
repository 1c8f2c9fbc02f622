"""The sandboxes app."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import AppConfig

from omniweb.core.ids import parse_ref


class SandboxesConfig(AppConfig):
    """Registers the room's topics and providers, and listens to decisions."""

    name = "sandboxes"

    def ready(self) -> None:
        """Connect what can only be imported once the apps are loaded."""
        from django.conf import settings

        from approvals.signals import request_decided
        from omniweb.core.realtime import topic_register
        from sandboxes import checks  # noqa: F401 - registers on import
        from sandboxes.providers import plugins
        from sandboxes.receivers import on_request_decided

        plugins.load(settings.SANDBOX_PROVIDERS)
        request_decided.connect(on_request_decided, dispatch_uid="sandboxes")
        topic_register("runs", _team)
        topic_register("environments", _team)
        topic_register("sandboxes", _team)
        topic_register("run", _run)


def _team(actor: Any, reference: str) -> UUID | None:
    return None if actor.agent else actor.team.id


def _run(actor: Any, reference: str) -> UUID | None:
    from sandboxes.selectors import runs_visible

    key = parse_ref("run", reference)
    return key if key and runs_visible(actor).filter(pk=key).exists() else None
