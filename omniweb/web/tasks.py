"""Tasks: load, call, nothing else."""

from __future__ import annotations

import logging

import httpx
from celery import shared_task
from django.conf import settings

from omniweb.accounts.auth import actor_for_user
from omniweb.accounts.models import Team, User
from omniweb.core.errors import NotPermitted
from omniweb.web import demo

logger = logging.getLogger(__name__)


@shared_task(name="web.demo_run")
def demo_run(team: str, owner: str) -> None:
    """Let the demo agent work through this server's public address."""
    actor = actor_for_user(User.objects.by_ref(owner), str(Team.objects.by_ref(team).pk))
    if actor is None:
        raise NotPermitted("Whoever started the demo is no longer a member of a team")
    try:
        demo.demo_run(actor=actor, url=settings.PUBLIC_URL, tell=logger.info)
    except httpx.HTTPError as error:
        logger.warning("the demo agent stopped: %s (%s)", error, settings.PUBLIC_URL)
