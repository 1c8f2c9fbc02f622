"""Saving and activating policies."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import Max

from approvals.models import Policy, PolicyVersion
from approvals.policy.document import document_source, parse_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.profiles import PROFILES, profile_document
from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.errors import Conflict, InvalidInput, Problem


def policy_create(*, actor: Actor, name: str, source: str, note: str = "") -> Policy:
    """Create a policy with its first version, which becomes active.

    Raises InvalidInput with line and reason for a bad document, Conflict for a taken name.
    """
    actor.require(Action.CONFIGURE)
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        problem = Problem(path="name", message="a policy needs a name of 1 to 100 characters")
        raise InvalidInput(problems=[problem])
    parse_document(source)
    try:
        with transaction.atomic():
            policy = Policy.objects.create(team=actor.team, name=name)
            audit_write(actor=actor, act="policy.create", subject=policy, name=name)
            version_create(actor=actor, policy=policy, source=source, note=note)
    except IntegrityError:
        raise Conflict(f"There is already a policy named {name}") from None
    return policy


def version_create(
    *, actor: Actor, policy: Policy, source: str, note: str = "", activate: bool = True
) -> PolicyVersion:
    """Save a new version of a policy, and by default make it the active one.

    Raises InvalidInput for a bad document and Conflict for a built-in policy.
    """
    actor.require(Action.CONFIGURE)
    if policy.is_builtin:
        raise Conflict(f"{policy.name} is built in and read-only: duplicate it to edit")
    document = parse_document(source)
    compile_policy(document)
    with transaction.atomic():
        # Excludes a second writer who would take the same number.
        policy = Policy.objects.select_for_update().get(pk=policy.pk)
        last = policy.versions.aggregate(last=Max("number"))["last"] or 0
        version = PolicyVersion.objects.create(
            policy=policy,
            number=last + 1,
            source=source,
            digest=document.digest,
            note=note,
            created_by=actor.user,
        )
        audit_write(
            actor=actor, act="policy.version", subject=policy, number=version.number, note=note
        )
        if activate:
            version_activate(actor=actor, version=version)
    return version


def version_activate(*, actor: Actor, version: PolicyVersion, note: str = "") -> None:
    """Make a version the one that new runs are opened under; running ones keep theirs."""
    actor.require(Action.CONFIGURE)
    policy = version.policy
    with transaction.atomic():
        Policy.objects.filter(pk=policy.pk).update(active_version=version)
        policy.active_version = version
        audit_write(
            actor=actor, act="policy.activate", subject=policy, number=version.number, note=note
        )


def policies_install(*, team: Team) -> None:
    """Give a team the built-in policies; does nothing for those it has."""
    for name in PROFILES:
        with transaction.atomic():
            policy, created = Policy.objects.get_or_create(
                team=team, name=name, defaults={"is_builtin": True}
            )
            if created:
                document = profile_document(name)
                policy.active_version = PolicyVersion.objects.create(
                    policy=policy,
                    number=1,
                    source=document_source(document),
                    digest=document.digest,
                    note="Built in",
                )
                policy.save(update_fields=["active_version"])
