"""Saving, activating and going back: what the service does for every door."""

from __future__ import annotations

import pytest

from approvals.models import Policy
from approvals.selectors import policies_kept, policy_for
from approvals.services.policies import (
    policy_archive,
    policy_create,
    policy_restore,
    policy_second_person,
    version_activate,
    version_create,
)
from omniweb.accounts.permissions import Actor
from omniweb.core.errors import Conflict, InvalidInput, NotPermitted, Overtaken
from omniweb.core.models import AuditEntry
from sandboxes.models import Profile
from sandboxes.services.profiles import profile_set
from tests.factories import OPEN_POLICY, policy_use
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


def test_a_policy_that_agents_run_under_is_not_archived_and_they_are_named(
    people: People, policy: Policy
) -> None:
    policy_use(people.agent, OPEN_POLICY)
    used = Policy.objects.get(team=people.team, name="open")
    with pytest.raises(Conflict, match="fix-bot runs under") as refusal:
        policy_archive(actor=people.operator, policy=used)
    assert refusal.value.extra == {"agents": ["fix-bot"]}
    policy_archive(actor=people.operator, policy=policy)
    assert policy not in policies_kept(people.viewer)
    assert policy in policies_kept(people.viewer, archived=True)


def test_an_archived_policy_is_neither_chosen_nor_changed_until_it_is_restored(
    people: People, policy: Policy
) -> None:
    policy_archive(actor=people.operator, policy=policy)
    profile = Profile.objects.get(agent=people.agent.agent)
    with pytest.raises(Conflict, match="archived"):
        profile_set(
            actor=people.operator,
            agent=profile.agent,
            policy=policy,
            environment=profile.environment,
        )
    with pytest.raises(Conflict, match="restore it first"):
        version_create(actor=people.operator, policy=policy, source=OPEN_POLICY)
    with pytest.raises(Conflict, match="restore it first"):
        version_activate(actor=people.operator, version=policy.versions.get())
    with pytest.raises(Conflict, match="already a policy named ours in the archive"):
        policy_create(actor=people.operator, name="ours", source=OPEN_POLICY)
    policy_restore(actor=people.operator, policy=policy)
    version_create(actor=people.operator, policy=policy, source=OPEN_POLICY)
    acts = AuditEntry.objects.filter(subject=policy.ref).values_list("act", flat=True)
    assert list(acts)[::-1].count("policy.archive") == 1
    assert "policy.restore" in acts


def test_a_built_in_policy_is_not_archived(people: People) -> None:
    with pytest.raises(Conflict, match="built in"):
        policy_archive(actor=people.admin, policy=policy_for(people.team, "strict-production"))


def test_where_it_takes_a_second_person_no_author_activates(people: People, policy: Policy) -> None:
    policy_second_person(actor=people.operator, policy=policy, is_needed=True)
    with pytest.raises(NotPermitted, match="take a second person"):
        version_create(actor=people.operator, policy=policy, source=OPEN_POLICY)
    assert policy.versions.count() == 1
    draft = version_create(actor=people.operator, policy=policy, source=OPEN_POLICY, activate=False)
    with pytest.raises(NotPermitted, match="you wrote version 2"):
        version_activate(actor=people.operator, version=draft)
    version_activate(actor=people.admin, version=draft)
    assert active(policy) == 2
    # The way back is a change, too.
    with pytest.raises(NotPermitted):
        version_activate(actor=people.operator, version=policy.versions.get(number=1))


def test_only_an_admin_takes_the_second_person_back_and_both_are_in_the_audit_log(
    people: People, policy: Policy
) -> None:
    policy_second_person(actor=people.operator, policy=policy, is_needed=True)
    with pytest.raises(NotPermitted):
        policy_second_person(actor=people.operator, policy=policy, is_needed=False)
    policy_second_person(actor=people.admin, policy=policy, is_needed=False)
    policy_second_person(actor=people.admin, policy=policy, is_needed=False)
    entries = AuditEntry.objects.filter(act="policy.second_person").order_by("id")
    said = [(entry.actor, entry.detail["is_needed"]) for entry in entries]
    assert said == [(people.operator.label, True), (people.admin.label, False)]
