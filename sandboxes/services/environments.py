"""Saving environments, checked against what their provider promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.errors import Conflict, InvalidInput, Problem
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.registry import check_environment
from sandboxes.services.secrets import secrets_check


def environment_create(
    *,
    actor: Actor,
    name: str,
    provider: str,
    options: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> Environment:
    """Save a new environment.

    Raises InvalidInput in the requirement document's words when the provider is
    unknown or cannot keep the options or the manifest; Conflict for a taken name.
    """
    actor.require(Action.CONFIGURE)
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        problem = Problem(path="name", message="an environment needs a name of 1 to 100 characters")
        raise InvalidInput(problems=[problem])
    parsed = Manifest.parse(manifest)
    check_environment(provider, options, parsed)
    try:
        with transaction.atomic():
            secrets_check(team=actor.team, provider=provider, manifest=parsed)
            environment = Environment.objects.create(
                team=actor.team,
                name=name,
                provider=provider,
                options=dict(options),
                manifest=dict(manifest),
            )
            audit_write(
                actor=actor,
                act="environment.create",
                subject=environment,
                name=name,
                provider=provider,
            )
    except IntegrityError:
        raise Conflict(f"There is already an environment named {name}") from None
    return environment


def environment_update(
    *,
    actor: Actor,
    environment: Environment,
    options: Mapping[str, Any],
    manifest: Mapping[str, Any],
) -> Environment:
    """Change options and manifest for runs opened from now on; raises InvalidInput."""
    actor.require(Action.CONFIGURE)
    parsed = Manifest.parse(manifest)
    check_environment(environment.provider, options, parsed)
    with transaction.atomic():
        secrets_check(team=actor.team, provider=environment.provider, manifest=parsed)
        environment.options = dict(options)
        environment.manifest = dict(manifest)
        environment.save(update_fields=["options", "manifest"])
        audit_write(actor=actor, act="environment.update", subject=environment)
    return environment


def environment_switch(*, actor: Actor, environment: Environment, is_enabled: bool) -> None:
    """Turn an environment on or off; running sandboxes are not touched."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        environment.is_enabled = is_enabled
        environment.save(update_fields=["is_enabled"])
        act = "environment.enable" if is_enabled else "environment.disable"
        audit_write(actor=actor, act=act, subject=environment)


def environments_install(*, team: Team) -> None:
    """Give a new team its environments: docker without network, and local, which is off."""
    runtime = {"runtime": settings.DOCKER_RUNTIME} if settings.DOCKER_RUNTIME else {}
    folder = settings.DATA_DIR / "local"
    defaults: dict[str, dict[str, Any]] = {
        "docker": {"provider": "docker", "options": {"image": settings.DOCKER_IMAGE} | runtime},
        "local": {
            "provider": "local",
            "options": {"create_working_dir": True},
            "manifest": {"working_dir": str(folder), "network_policy": {"default": "allow"}},
            "is_enabled": False,
        },
    }
    for name, values in defaults.items():
        Environment.objects.get_or_create(team=team, name=name, defaults=values)
