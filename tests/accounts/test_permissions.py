"""Who may do what."""

from __future__ import annotations

import pytest

from omniweb.accounts.models import ApiToken
from omniweb.accounts.permissions import Action, Actor, TokenScope, system
from omniweb.core.errors import NotPermitted
from tests.people import People

MAY = {
    "admin": set(Action) - {Action.RUN},
    "operator": {Action.VIEW, Action.RUN_END, Action.CONFIGURE},
    "owner": {Action.VIEW, Action.REQUEST_DECIDE},
    "approver": {Action.VIEW, Action.REQUEST_DECIDE},
    "auditor": {Action.VIEW, Action.RECORD_AUDIT},
    "viewer": {Action.VIEW},
    "agent": {Action.RUN},
}


@pytest.mark.parametrize("name", MAY)
def test_each_may_do_what_the_table_says_and_no_more(people: People, name: str) -> None:
    actor: Actor = getattr(people, name)
    assert {action for action in Action if actor.may(action)} == MAY[name]


def test_a_refusal_names_who_could(people: People) -> None:
    with pytest.raises(
        NotPermitted, match=r"viewer@example.org may not approve and reject.*approver"
    ):
        people.viewer.require(Action.REQUEST_DECIDE)


def test_a_token_never_allows_more_than_its_scopes(people: People) -> None:
    actor = Actor(
        team=people.team,
        user=people.admin.user,
        role=people.admin.role,
        scopes=frozenset({TokenScope.READ}),
    )
    assert actor.may(Action.VIEW)
    assert not actor.may(Action.CONFIGURE)
    assert not actor.may(Action.REQUEST_DECIDE)


def test_a_token_never_allows_more_than_its_holders_role(people: People) -> None:
    actor = Actor(
        team=people.team,
        user=people.viewer.user,
        role=people.viewer.role,
        scopes=frozenset(TokenScope),
    )
    assert {action for action in Action if actor.may(action)} == {Action.VIEW}


def test_the_product_acts_for_a_team_without_being_a_person(people: People) -> None:
    assert system(people.team).label == "system"
    assert ApiToken.objects.count() == 0
