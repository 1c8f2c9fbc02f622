"""Saving and activating policies."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import Max

from approvals.models import Policy, PolicyVersion
from approvals.policy.check import activation_problems
from approvals.policy.document import document_source, parse_document
from approvals.policy.profiles import PROFILES, profile_document
from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.errors import Conflict, InvalidInput, Overtaken, Problem

MAX_NAME = 100


def policy_create(
    *, actor: Actor, source: str, name: str = "", note: str = "", activate: bool = True
) -> Policy:
    """Create a policy with its first version, which becomes active unless it stays a draft.

    Without a name it takes the document's. Raises InvalidInput with line and reason for a bad
    document and for kept tests that fail, Conflict for a taken name.
    """
    actor.require(Action.CONFIGURE)
    document = parse_document(source)
    name = name.strip() or document.name
    if len(name) > MAX_NAME or not name.isprintable():
        text = f"a policy needs a name of 1 to {MAX_NAME} characters"
        raise InvalidInput(problems=[Problem(path="name", message=text)])
    try:
        with transaction.atomic():
            policy = Policy.objects.create(team=actor.team, name=name)
            audit_write(actor=actor, act="policy.create", subject=policy, name=name)
            version_create(actor=actor, policy=policy, source=source, note=note, activate=activate)
    except IntegrityError:
        raise Conflict(f"There is already a policy named {name}") from None
    return policy


def version_create(
    *,
    actor: Actor,
    policy: Policy,
    source: str,
    note: str = "",
    activate: bool = True,
    base: int | None = None,
) -> PolicyVersion:
    """Save a new version of a policy, and by default make it the active one.

    `base` is the newest version its author knew of. Raises InvalidInput for a bad document and,
    when it is to become active, for kept tests that fail; Overtaken when there is a newer version
    than `base`; Conflict for a built-in policy. Then nothing is saved.
    """
    actor.require(Action.CONFIGURE)
    if policy.is_builtin:
        raise Conflict(f"{policy.name} is built in and read-only: duplicate it to edit")
    document = parse_document(source)
    with transaction.atomic():
        # Excludes a second writer who would take the same number.
        policy = Policy.objects.select_for_update().get(pk=policy.pk)
        last = policy.versions.aggregate(last=Max("number"))["last"] or 0
        if base is not None and base != last:
            raise Overtaken(
                f"Version {last} of {policy.name} was saved after version {base}, "
                "from which this one was made",
                latest=last,
            )
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
            version_activate(actor=actor, version=version, note=note)
    return version


def version_activate(*, actor: Actor, version: PolicyVersion, note: str = "") -> None:
    """Make a version the one that new runs are opened under; running ones keep theirs.

    An older version is a way back. Raises InvalidInput, naming each fault and each kept test that
    fails.
    """
    actor.require(Action.CONFIGURE)
    problems = activation_problems(version.source)
    if problems:
        told = "; ".join(map(str, problems))
        raise InvalidInput(f"This version cannot become active: {told}", problems=problems)
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
