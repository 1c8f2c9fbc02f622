"""The trajectories app."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.apps import AppConfig

from omniweb.core.logs import lines_mask
from omniweb.core.realtime import topic_register
from trajectories.redaction import redactor

if TYPE_CHECKING:
    from omniweb.accounts.permissions import Actor


class TrajectoriesConfig(AppConfig):
    """Registers the room's topics, and keeps secrets out of the log."""

    name = "trajectories"

    def ready(self) -> None:
        """Let people listen to the records of their team, and mask what is logged from now on."""
        topic_register("trajectory", _may_hear)
        lines_mask(lambda line: redactor().text(line))


def _may_hear(actor: Actor, reference: str) -> uuid.UUID | None:
    from omniweb.accounts.permissions import Action  # models, once apps are ready
    from trajectories.selectors import trajectories_visible

    key = _key(reference)
    if key is None or not actor.may(Action.VIEW):
        return None
    return key if trajectories_visible(actor).filter(pk=key).exists() else None


def _key(reference: str) -> uuid.UUID | None:
    from omniweb.core.ids import parse_ref

    return parse_ref("trj", reference)
