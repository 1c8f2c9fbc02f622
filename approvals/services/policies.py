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
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, NotPermitted, Overtaken, Problem

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
        is_archived = Policy.objects.filter(
            team=actor.team, name=name, archived_at__isnull=False
        ).exists()
        where = " in the archive" if is_archived else ""
        raise Conflict(f"There is already a policy named {name}{where}") from None
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
    when it is to become active, for kept tests that fail, and then NotPermitted where that takes a
    second person; Overtaken when there is a newer version than `base`; Conflict for a policy that
    is built in or archived. Then nothing is saved.
    """
    actor.require(Action.CONFIGURE)
    _require_own(policy)
    document = parse_document(source)
    with transaction.atomic():
        # Excludes a second writer who would take the same number.
        policy = _held(policy)
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
    fails; NotPermitted for who wrote the version, where that takes a second person; Conflict for
    an archived policy.
    """
    actor.require(Action.CONFIGURE)
    problems = activation_problems(version.source)
    if problems:
        told = "; ".join(map(str, problems))
        raise InvalidInput(f"This version cannot become active: {told}", problems=problems)
    with transaction.atomic():
        # Excludes whoever is archiving it, or changing who may activate.
        policy = _held(version.policy)
        _require_second_person(actor, policy, version)
        policy.active_version = version.policy.active_version = version
        policy.save(update_fields=["active_version"])
        audit_write(
            actor=actor, act="policy.activate", subject=policy, number=version.number, note=note
        )


def policy_archive(*, actor: Actor, policy: Policy) -> None:
    """Take a policy out of the lists; what was decided under it stays.

    Raises Conflict for a built-in policy, and, naming them, while agents run under it.
    """
    actor.require(Action.CONFIGURE)
    _require_own(policy)
    with transaction.atomic():
        # Excludes whoever is putting an agent under it.
        policy = Policy.objects.select_for_update().get(pk=policy.pk)
        # The room above says which agent runs under which policy.
        agents = list(policy.profiles.order_by("agent__name").values_list("agent__name", flat=True))
        if agents:
            named = ", ".join(agents)
            raise Conflict(
                f"{policy} is what {named} run{'s' if len(agents) == 1 else ''} under: "
                "choose another policy there first",
                agents=agents,
            )
        if Policy.objects.filter(pk=policy.pk, archived_at=None).update(archived_at=now()):
            audit_write(actor=actor, act="policy.archive", subject=policy, name=policy.name)


def policy_restore(*, actor: Actor, policy: Policy) -> None:
    """Take a policy back out of the archive; does nothing for one that is not in it."""
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        archived = Policy.objects.filter(pk=policy.pk, archived_at__isnull=False)
        if archived.update(archived_at=None):
            audit_write(actor=actor, act="policy.restore", subject=policy, name=policy.name)


def policy_second_person(*, actor: Actor, policy: Policy, is_needed: bool) -> None:
    """Say whether a version takes someone else than its author to become active.

    Only an admin says no to it, or it would protect from nobody. Raises NotPermitted, and Conflict
    for a built-in or archived policy.
    """
    actor.require(Action.CONFIGURE if is_needed else Action.ADMINISTER)
    _require_own(policy)
    with transaction.atomic():
        policy = _held(policy)
        if policy.needs_second_person is is_needed:
            return
        policy.needs_second_person = is_needed
        policy.save(update_fields=["needs_second_person"])
        audit_write(actor=actor, act="policy.second_person", subject=policy, is_needed=is_needed)


def _require_own(policy: Policy) -> None:
    if policy.is_builtin:
        raise Conflict(f"{policy.name} is built in and read-only: duplicate it to edit")


def _held(policy: Policy) -> Policy:
    """Return a policy with its row locked until the transaction ends; Conflict for an archived one."""
    held = Policy.objects.select_for_update().get(pk=policy.pk)
    if held.archived_at is not None:
        raise Conflict(f"{held} is in the archive: restore it first")
    return held


def _require_second_person(actor: Actor, policy: Policy, version: PolicyVersion) -> None:
    if not policy.needs_second_person or actor.user is None:
        return
    if version.created_by_id == actor.user.pk:
        raise NotPermitted(
            f"Versions of {policy} take a second person: you wrote version {version.number}, so "
            "someone else activates it. Save it as a draft for them."
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
