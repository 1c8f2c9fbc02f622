"""`manage.py user_create EMAIL --role ROLE`: a person with a role."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.urls import reverse

from omniweb.accounts.models import Role, Team
from omniweb.accounts.permissions import system
from omniweb.accounts.services import link_create, user_create
from omniweb.management.output import ScriptCommand


class Command(ScriptCommand):
    """Create a person, or take a known one into the team; print a link that signs them in."""

    help = "Create a person with a role; prints the id and a one-time sign-in link."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the address, the role and perhaps a password."""
        super().add_arguments(parser)
        parser.add_argument("email")
        parser.add_argument("--role", required=True, choices=Role.values)
        parser.add_argument("--password", help="without one, they sign in by link")

    def facts(self, *, team: Team, **options: Any) -> dict[str, Any]:
        """Create the person."""
        user = user_create(
            actor=system(team),
            email=options["email"],
            role=Role(options["role"]),
            password=options["password"],
        )
        path = reverse("sign_in_link", args=[link_create(user=user)])
        return {
            "id": user.ref,
            "email": user.email,
            "role": options["role"],
            "sign_in": f"{settings.PUBLIC_URL}{path}",
        }
