"""Puts the actor on every request, found out when first asked for."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from omniweb.accounts.auth import actor_for_request
from omniweb.core.middleware import PassThrough


class ActorMiddleware(PassThrough):
    """Sets `request.actor`: an Actor, or something false when nobody is signed in."""

    def prepare(self, request: HttpRequest) -> None:
        """Promise the actor."""
        request.actor = SimpleLazyObject(lambda: actor_for_request(request))  # type: ignore[attr-defined]  # see core/htmx.py
