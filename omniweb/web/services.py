"""Preparing an installation: what the first start makes."""

from __future__ import annotations

from django.core.management import call_command

from approvals.services.policies import policies_install
from omniweb.accounts.models import Membership, Role, Team, User
from omniweb.accounts.permissions import system
from omniweb.accounts.services import team_create, user_create
from sandboxes.services.environments import environments_install

FIRST_TEAM = "Default"
FIRST_ADMIN = "admin@localhost"


def installation_prepare() -> User:
    """Bring the database up to date and make what the first start makes; return an admin.

    Team, admin, built-in policies and environments; does nothing for those there are.
    """
    call_command("migrate", interactive=False, verbosity=0)
    team = Team.objects.order_by("id").first() or team_create(name=FIRST_TEAM)
    policies_install(team=team)
    environments_install(team=team)
    admin = (
        Membership.objects.filter(team=team, role=Role.ADMIN, user__is_active=True)
        .select_related("user")
        .order_by("id")
        .first()
    )
    if admin is not None:
        return admin.user
    return user_create(actor=system(team), email=FIRST_ADMIN, role=Role.ADMIN)
