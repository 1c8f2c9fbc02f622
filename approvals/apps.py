"""The approvals app."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import AppConfig

from omniweb.core.ids import parse_ref


class ApprovalsConfig(AppConfig):
    """Registers the inbox and simulations as topics."""

    name = "approvals"

    def ready(self) -> None:
        """Let the people of a team hear its inbox and how its simulations go."""
        from omniweb.core.realtime import topic_register  # needs loaded settings

        topic_register("inbox", _inbox)
        topic_register("simulation", _simulation)


def _inbox(actor: Any, reference: str) -> UUID | None:
    return None if actor.agent else actor.team.id


def _simulation(actor: Any, reference: str) -> UUID | None:
    from approvals.models import Simulation  # needs loaded apps

    key = parse_ref(Simulation.PREFIX, reference)
    if actor.agent or key is None:
        return None
    return Simulation.objects.filter(team=actor.team, pk=key).values_list("pk", flat=True).first()
