"""Making people, agents, tokens and sign-in links."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from omniweb.accounts.auth import secret_hash, secret_new
from omniweb.accounts.models import (
    AgentIdentity,
    ApiToken,
    Membership,
    Role,
    SignInLink,
    Team,
    User,
)
from omniweb.accounts.permissions import ROLE_ACTIONS, SCOPE_ACTIONS, Action, Actor, TokenScope
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, NotAuthenticated, Problem

LINK_LIFETIME = timedelta(hours=12)


def user_create(*, actor: Actor, email: str, role: Role, password: str | None = None) -> User:
    """Create a person, or take a known one into the team, with a role.

    Raises InvalidInput for a bad address and Conflict when already a member.
    """
    actor.require(Action.ADMINISTER)
    email = _valid_email(email)
    with transaction.atomic():
        user: User | None = User.objects.filter(email=email).first()
        if user is None:
            user = User.objects.create_user(email, password)
        _, created = Membership.objects.get_or_create(
            team=actor.team, user=user, defaults={"role": role}
        )
        if not created:
            raise Conflict(f"{email} is already a member of {actor.team}")
        audit_write(actor=actor, act="user.create", subject=user, email=email, role=role)
    return user


def _valid_email(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError:
        # An installation on one machine has addresses such as admin@localhost.
        if not email.endswith("@localhost") or email.startswith("@"):
            problem = Problem(path="email", message=f"{email!r} is not an e-mail address")
            raise InvalidInput(problems=[problem]) from None
    return email


def agent_create(*, actor: Actor, name: str, owner: User) -> AgentIdentity:
    """Register an agent under a person who answers for it.

    Raises InvalidInput for an empty name or an owner outside the team, Conflict for a taken name.
    """
    actor.require(Action.CONFIGURE)
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        problem = Problem(path="name", message="an agent needs a name of 1 to 100 characters")
        raise InvalidInput(problems=[problem])
    if not Membership.objects.filter(team=actor.team, user=owner).exists():
        problem = Problem(path="owner", message=f"{owner.email} is not a member of {actor.team}")
        raise InvalidInput(problems=[problem])
    try:
        with transaction.atomic():
            agent = AgentIdentity.objects.create(team=actor.team, name=name, owner=owner)
            audit_write(
                actor=actor, act="agent.create", subject=agent, name=name, owner=owner.email
            )
    except IntegrityError:
        raise Conflict(f"There is already an agent named {name}") from None
    return agent


def token_create(
    *,
    actor: Actor,
    user: User | None = None,
    agent: AgentIdentity | None = None,
    scopes: Iterable[str] = (),
    label: str = "",
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Create a token for a person or an agent; return it and its secret, shown only now.

    Without scopes an agent's token may run, a person's may do what their role may.
    Raises InvalidInput for a scope that is unknown or beyond the holder's role.
    """
    if not (user and actor.user and user.pk == actor.user.pk):
        actor.require(Action.CONFIGURE if agent else Action.ADMINISTER)
    allowed = _allowed_scopes(actor, user, agent)
    chosen = _chosen_scopes(scopes, allowed)
    secret = secret_new()
    with transaction.atomic():
        token = ApiToken.objects.create(
            team=actor.team,
            user=user,
            agent=agent,
            label=label,
            start=secret[:10],
            sha256=secret_hash(secret),
            scopes=sorted(chosen),
            expires_at=expires_at,
        )
        holder = user.email if user else agent.name if agent else ""
        audit_write(
            actor=actor, act="token.create", subject=token, holder=holder, scopes=token.scopes
        )
    return token, secret


def _allowed_scopes(
    actor: Actor, user: User | None, agent: AgentIdentity | None
) -> frozenset[TokenScope]:
    if agent:
        return frozenset({TokenScope.RUN})
    membership = Membership.objects.filter(team=actor.team, user=user).first()
    if membership is None:
        problem = Problem(path="holder", message="a token needs a member of the team or an agent")
        raise InvalidInput(problems=[problem])
    actions = ROLE_ACTIONS[Role(membership.role)]
    reads = SCOPE_ACTIONS[TokenScope.READ]
    allowed = frozenset(
        scope
        for scope in TokenScope
        if scope is not TokenScope.RUN and SCOPE_ACTIONS[scope] - reads <= actions
    )
    if actor.scopes is None:
        return allowed
    # A token makes no token that may do more than itself.
    own = frozenset[Action]().union(*(SCOPE_ACTIONS[scope] for scope in actor.scopes))
    return frozenset(scope for scope in allowed if SCOPE_ACTIONS[scope] <= own)


def _chosen_scopes(scopes: Iterable[str], allowed: frozenset[TokenScope]) -> frozenset[TokenScope]:
    wanted = set(scopes)
    refused = sorted(wanted - {scope.value for scope in allowed})
    if refused:
        possible = ", ".join(sorted(scope.value for scope in allowed))
        message = f"scope {', '.join(refused)} is not possible here; possible: {possible}"
        raise InvalidInput(problems=[Problem(path="scopes", message=message)])
    return frozenset(TokenScope(scope) for scope in wanted) or allowed


def token_revoke(*, actor: Actor, token: ApiToken) -> bool:
    """End a token at once; False when it was revoked already."""
    if not (actor.user and token.user_id == actor.user.pk):
        actor.require(Action.CONFIGURE if token.agent_id else Action.ADMINISTER)
    with transaction.atomic():
        ended = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(
            revoked_at=now()
        )
        if ended:
            audit_write(actor=actor, act="token.revoke", subject=token)
    return bool(ended)


def link_create(*, user: User) -> str:
    """Return the secret of a link that signs a person in once, within twelve hours."""
    secret = secrets.token_urlsafe(24)
    SignInLink.objects.create(
        user=user, sha256=secret_hash(secret), expires_at=now() + LINK_LIFETIME
    )
    return secret


def link_use(*, secret: str) -> User:
    """Spend a sign-in link; raises NotAuthenticated when it is unknown, used or expired."""
    moment = now()
    link = SignInLink.objects.filter(sha256=secret_hash(secret)).select_related("user").first()
    spent = link is not None and SignInLink.objects.filter(
        pk=link.pk, used_at__isnull=True, expires_at__gt=moment, user__is_active=True
    ).update(used_at=moment)
    if link is None or not spent:
        raise NotAuthenticated("This sign-in link was used already or has expired")
    return link.user


def team_create(*, name: str) -> Team:
    """Create a team; the first start makes one, more are made by command."""
    return Team.objects.create(name=name)
