"""Who can act: people in teams, agents with owners, and tokens for both."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models

from omniweb.core.models import Row, RowQuerySet


class UserManager(BaseUserManager["User"]):
    """Creates people; Django and allauth call it."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Create a person; without a password they sign in by one-time link."""
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        """Return the person with this address, whatever its case."""
        return self.get(email__iexact=username)


class User(Row, AbstractBaseUser):
    """A person. Roles come from memberships, never from flags here."""

    PREFIX = "usr"

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=200, blank=True)
    is_active = models.BooleanField(default=True)

    # The base class knows only a manager; Row's queryset is still what lookups by ref use.
    objects: ClassVar[Any] = UserManager.from_queryset(RowQuerySet)()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    def __str__(self) -> str:
        return self.email

    @property
    def is_staff(self) -> bool:
        """No one: there is no second door with rules of its own."""
        return False


class Team(Row):
    """Whose everything is: each row belongs to one team and is invisible to all others."""

    PREFIX = "team"

    name = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a person does in a team; permissions.py says what each may do."""

    VIEWER = "viewer"
    AUDITOR = "auditor"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"


class Membership(Row):
    """A person's role in a team."""

    PREFIX = "mem"

    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_team")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class AgentIdentity(Row):
    """A program that asks to do things. It has an owner, who is a person, and is never one."""

    PREFIX = "agt"

    team = models.ForeignKey(Team, models.CASCADE, related_name="agents")
    name = models.CharField(max_length=100)
    owner = models.ForeignKey(User, models.PROTECT, related_name="agents")
    is_active = models.BooleanField(default=True)

    class Meta:
        verbose_name = "agent"
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="agent_name_unique_in_team")
        ]

    def __str__(self) -> str:
        return self.name


class ApiToken(Row):
    """A bearer token of a person or an agent; only its hash is kept."""

    PREFIX = "tok"

    team = models.ForeignKey(Team, models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="tokens")
    agent = models.ForeignKey(AgentIdentity, models.CASCADE, null=True, related_name="tokens")
    label = models.CharField(max_length=100, blank=True)
    start = models.CharField(max_length=16, help_text="The first letters, to tell tokens apart")
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "token"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(user__isnull=True) ^ models.Q(agent__isnull=True),
                name="token_is_a_persons_or_an_agents",
            )
        ]

    def __str__(self) -> str:
        return f"{self.start}…"


class SignInLink(Row):
    """A link that signs one person in, once."""

    PREFIX = "lnk"

    user = models.ForeignKey(User, models.CASCADE, related_name="sign_in_links")
    sha256 = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sign-in link of {self.user}"
