"""People change policies at the same instant."""

from __future__ import annotations

import pytest

from approvals.models import Policy
from approvals.services.policies import (
    policy_archive,
    policy_create,
    policy_second_person,
    version_activate,
    version_create,
)
from omniweb.core.errors import Conflict, NotPermitted, Overtaken
from sandboxes.models import Profile
from sandboxes.services.profiles import profile_set
from tests.factories import OPEN_POLICY
from tests.people import People
from tests.races.test_two_deciders import together

ROUNDS = 25

pytestmark = pytest.mark.django_db(transaction=True)


def test_of_two_who_save_on_the_same_version_one_is_told_of_the_other(people: People) -> None:
    policy = policy_create(actor=people.operator, name="ours", source=OPEN_POLICY)
    for base in range(1, ROUNDS):

        def save(base: int = base) -> None:
            version_create(actor=people.operator, policy=policy, source=OPEN_POLICY, base=base)

        refused = [error for error in together(save, save) if error]
        assert [type(error) for error in refused] == [Overtaken]
        assert policy.versions.count() == base + 1


def test_no_agent_is_put_under_a_policy_that_is_being_archived(people: People) -> None:
    profile = Profile.objects.select_related("agent", "environment", "policy").get()
    for turn in range(ROUNDS):
        policy = policy_create(actor=people.operator, name=f"p{turn}", source=OPEN_POLICY)

        def choose(policy: Policy = policy) -> None:
            profile_set(
                actor=people.operator,
                agent=profile.agent,
                policy=policy,
                environment=profile.environment,
            )

        def archive(policy: Policy = policy) -> None:
            policy_archive(actor=people.admin, policy=policy)

        refused = [error for error in together(choose, archive) if error]
        assert [type(error) for error in refused] == [Conflict]
        policy.refresh_from_db()
        is_used = Profile.objects.filter(policy=policy).exists()
        assert is_used is (policy.archived_at is None)
        profile_set(
            actor=people.operator,
            agent=profile.agent,
            policy=profile.policy,
            environment=profile.environment,
        )


def test_no_author_slips_through_while_a_second_person_is_asked_for(people: People) -> None:
    for turn in range(ROUNDS):
        policy = policy_create(actor=people.admin, name=f"p{turn}", source=OPEN_POLICY)
        draft = version_create(
            actor=people.operator, policy=policy, source=OPEN_POLICY, activate=False
        )

        def activate() -> None:
            version_activate(actor=people.operator, version=draft)  # noqa: B023 - run at once

        def ask(policy: Policy = policy) -> None:
            policy_second_person(actor=people.admin, policy=policy, is_needed=True)

        activating, asking = together(activate, ask)
        assert asking is None
        policy.refresh_from_db()
        assert policy.needs_second_person
        # It came first, or it was refused.
        was_first = policy.active_version_id == draft.pk
        assert was_first is (activating is None)
        assert activating is None or isinstance(activating, NotPermitted)
