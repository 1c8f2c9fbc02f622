"""People, agents, tokens and links."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from omniweb.accounts.auth import actor_for_token
from omniweb.accounts.models import AgentIdentity, ApiToken, Role, SignInLink
from omniweb.accounts.permissions import TokenScope, system
from omniweb.accounts.services import (
    agent_create,
    link_create,
    link_use,
    token_create,
    token_revoke,
    user_create,
)
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, NotAuthenticated, NotPermitted
from omniweb.core.models import AuditEntry
from tests.people import People


def test_a_token_is_kept_as_a_hash_and_leads_to_its_holder(people: People) -> None:
    token, secret = token_create(actor=people.operator, agent=people.agent.agent)
    assert secret not in str(vars(token))
    actor = actor_for_token(secret)
    assert (actor.agent, actor.scopes) == (people.agent.agent, frozenset({TokenScope.RUN}))


def test_an_agents_token_can_never_decide(people: People) -> None:
    with pytest.raises(InvalidInput, match="scope decide is not possible"):
        token_create(actor=people.operator, agent=people.agent.agent, scopes=["decide"])


def test_a_persons_token_is_bounded_by_their_role(people: People) -> None:
    with pytest.raises(InvalidInput, match="scope operate is not possible"):
        token_create(actor=people.approver, user=people.approver.user, scopes=["operate"])
    token, _ = token_create(actor=people.approver, user=people.approver.user)
    assert token.scopes == ["decide", "read"]


def test_nobody_makes_tokens_for_others_without_the_right(people: People) -> None:
    with pytest.raises(NotPermitted):
        token_create(actor=people.approver, user=people.viewer.user)
    with pytest.raises(NotPermitted):
        token_create(actor=people.approver, agent=people.agent.agent)


def test_revoked_expired_and_unknown_tokens_open_nothing(people: People) -> None:
    token, secret = token_create(actor=people.operator, agent=people.agent.agent)
    assert token_revoke(actor=people.operator, token=token)
    assert not token_revoke(actor=people.operator, token=token)
    _, short = token_create(
        actor=people.operator, agent=people.agent.agent, expires_at=now() + timedelta(minutes=1)
    )
    with time_machine.travel(now() + timedelta(minutes=2)), pytest.raises(NotAuthenticated):
        actor_for_token(short)
    for dead in (secret, "omw_nothing", ""):
        with pytest.raises(NotAuthenticated):
            actor_for_token(dead)


def test_a_token_of_an_agent_that_was_switched_off_opens_nothing(people: People) -> None:
    _, secret = token_create(actor=people.operator, agent=people.agent.agent)
    AgentIdentity.objects.update(is_active=False)
    with pytest.raises(NotAuthenticated):
        actor_for_token(secret)


def test_use_is_noted_at_most_once_a_minute(people: People) -> None:
    token, secret = token_create(actor=people.operator, agent=people.agent.agent)
    with time_machine.travel(now(), tick=False) as clock:
        actor_for_token(secret)
        first = ApiToken.objects.get(pk=token.pk).last_used_at
        clock.shift(30)
        actor_for_token(secret)
        assert ApiToken.objects.get(pk=token.pk).last_used_at == first
        clock.shift(31)
        actor_for_token(secret)
        assert ApiToken.objects.get(pk=token.pk).last_used_at != first


def test_a_link_signs_in_once(people: People) -> None:
    user = people.viewer.user
    assert user is not None
    secret = link_create(user=user)
    assert secret not in str(list(SignInLink.objects.values()))
    assert link_use(secret=secret) == user
    with pytest.raises(NotAuthenticated):
        link_use(secret=secret)


def test_a_link_expires(people: People) -> None:
    user = people.viewer.user
    assert user is not None
    secret = link_create(user=user)
    with time_machine.travel(now() + timedelta(hours=13)), pytest.raises(NotAuthenticated):
        link_use(secret=secret)


def test_only_admins_make_people(people: People) -> None:
    with pytest.raises(NotPermitted):
        user_create(actor=people.operator, email="new@example.org", role=Role.VIEWER)
    with pytest.raises(InvalidInput, match="is not an e-mail address"):
        user_create(actor=people.admin, email="nonsense", role=Role.VIEWER)
    with pytest.raises(Conflict):
        user_create(actor=people.admin, email="Viewer@example.org", role=Role.ADMIN)


def test_an_agents_owner_is_of_the_team_and_its_name_its_own(people: People) -> None:
    outsider, owner = people.outsider.user, people.owner.user
    assert outsider is not None
    assert owner is not None
    with pytest.raises(InvalidInput, match="is not a member"):
        agent_create(actor=people.operator, name="bot", owner=outsider)
    with pytest.raises(Conflict, match="already an agent named fix-bot"):
        agent_create(actor=people.operator, name="fix-bot", owner=owner)
    with pytest.raises(InvalidInput, match="1 to 100 characters"):
        agent_create(actor=people.operator, name="  ", owner=owner)


def test_every_act_is_in_the_audit_log_with_its_actor(people: People) -> None:
    token_create(actor=people.operator, agent=people.agent.agent)
    entry = AuditEntry.objects.filter(act="token.create").get()
    assert (entry.actor, entry.team_id) == ("operator@example.org", people.team.id)
    assert system(people.team).label in set(AuditEntry.objects.values_list("actor", flat=True))
