"""Turning a request into an actor: session, bearer token, or one-time link."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest

from omniweb.accounts.models import ApiToken, Membership, Role, User
from omniweb.accounts.permissions import Actor, TokenScope
from omniweb.accounts.selectors import tokens_usable
from omniweb.core.clock import now
from omniweb.core.errors import NotAuthenticated

TOKEN_PREFIX = "omw_"  # noqa: S105 - a marker for secret scanners, not a secret
LAST_USED_EVERY = timedelta(minutes=1)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """People are invited, they do not sign themselves up."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never: an admin makes accounts."""
        return False


def secret_hash(secret: str) -> str:
    """Return what is kept of a token or link: enough to recognise it, not to use it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def secret_new() -> str:
    """Return a new bearer token, with a prefix that secret scanners can find."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def actor_for_user(user: User, team_id: str | None = None) -> Actor | None:
    """Return a person as an actor of the chosen team, or of their first; None without any."""
    memberships = user.memberships.select_related("team").order_by("id")
    membership: Membership | None = None
    if team_id:
        membership = memberships.filter(team_id=team_id).first()
    membership = membership or memberships.first()
    if membership is None:
        return None
    return Actor(team=membership.team, user=user, role=Role(membership.role))


def actor_for_token(secret: str) -> Actor:
    """Return the actor behind a bearer token; raises NotAuthenticated."""
    # Looking up the hash leaks nothing by timing: the database compares digests, not secrets.
    tokens = tokens_usable().select_related("team", "user", "agent")
    try:
        token = tokens.get(sha256=secret_hash(secret))
    except ApiToken.DoesNotExist:
        raise NotAuthenticated("The token is unknown, expired or revoked") from None
    _note_use(token)
    scopes = frozenset(TokenScope(scope) for scope in token.scopes)
    if token.agent:
        token.agent.team = token.team
        return Actor(team=token.team, agent=token.agent, scopes=scopes)
    membership = Membership.objects.filter(team=token.team, user=token.user).first()
    if membership is None:
        raise NotAuthenticated("The token's holder is no longer a member of the team")
    return Actor(team=token.team, user=token.user, role=Role(membership.role), scopes=scopes)


def _note_use(token: ApiToken) -> None:
    moment = now()
    if token.last_used_at is None or moment - token.last_used_at > LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=moment)


def actor_for_request(request: HttpRequest) -> Actor | None:
    """Return who a page is shown to; None when nobody is signed in."""
    user = request.user
    if not isinstance(user, User):
        return None
    return actor_for_user(user, request.session.get("team"))
