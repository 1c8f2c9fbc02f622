"""Saving, activating and going back: what the service does for every door."""

from __future__ import annotations

import pytest

from approvals.models import Policy
from approvals.services.policies import policy_create, version_activate, version_create
from omniweb.accounts.permissions import Actor
from omniweb.core.errors import InvalidInput, NotPermitted, Overtaken
from omniweb.core.models import AuditEntry
from tests.factories import OPEN_POLICY
from tests.people import People

# Denies what it says it allows.
FAILING = (
    OPEN_POLICY
    + """
tests:
  - {request: {capability: process.exec, command: [rm, build]}, expect: allow}
"""
)


@pytest.fixture
def policy(people: People) -> Policy:
    """A policy with one version, which is active."""
    return policy_create(actor=people.operator, name="ours", source=OPEN_POLICY)


def active(policy: Policy) -> int | None:
    policy.refresh_from_db()
    return policy.active_version.number if policy.active_version else None


def test_a_version_whose_tests_fail_is_refused_as_a_whole(people: People, policy: Policy) -> None:
    with pytest.raises(InvalidInput, match="expects allow, but the policy decides deny"):
        version_create(actor=people.operator, policy=policy, source=FAILING)
    assert policy.versions.count() == 1
    with pytest.raises(InvalidInput):
        policy_create(actor=people.operator, name="new", source=FAILING)
    assert not Policy.objects.filter(name="new").exists()


def test_a_version_whose_tests_fail_stays_a_draft(people: People, policy: Policy) -> None:
    draft = version_create(actor=people.operator, policy=policy, source=FAILING, activate=False)
    assert (draft.number, active(policy)) == (2, 1)
    with pytest.raises(InvalidInput) as refusal:
        version_activate(actor=people.operator, version=draft)
    assert refusal.value.problems[0].path == "tests[0]"
    assert active(policy) == 1


def test_a_new_policy_can_be_a_draft(people: People) -> None:
    draft = policy_create(actor=people.operator, name="new", source=FAILING, activate=False)
    assert active(draft) is None
    assert draft.versions.get().number == 1


def test_a_policy_without_a_name_takes_that_of_its_document(people: People) -> None:
    assert policy_create(actor=people.operator, source=OPEN_POLICY).name == "open"


def test_the_way_back_is_to_activate_an_older_version_and_is_noted(
    people: People, policy: Policy
) -> None:
    version_create(actor=people.operator, policy=policy, source=OPEN_POLICY, note="Try")
    assert active(policy) == 2
    version_activate(actor=people.admin, version=policy.versions.get(number=1), note="Too lax")
    assert active(policy) == 1
    entry = AuditEntry.objects.filter(act="policy.activate").latest("id")
    assert (entry.actor, entry.detail) == (people.admin.label, {"number": 1, "note": "Too lax"})


def test_two_who_write_at_once_are_told_and_nothing_is_saved(
    people: People, policy: Policy
) -> None:
    def save(actor: Actor, base: int) -> int:
        made = version_create(actor=actor, policy=policy, source=OPEN_POLICY, base=base)
        return made.number

    assert save(people.operator, 1) == 2
    with pytest.raises(Overtaken) as refusal:
        save(people.admin, 1)
    assert refusal.value.extra == {"latest": 2}
    assert policy.versions.count() == 2
    assert save(people.admin, 2) == 3


def test_only_who_may_configure_saves_and_activates(people: People, policy: Policy) -> None:
    version = policy.versions.get()
    with pytest.raises(NotPermitted):
        version_create(actor=people.approver, policy=policy, source=OPEN_POLICY)
    with pytest.raises(NotPermitted):
        version_activate(actor=people.viewer, version=version)
