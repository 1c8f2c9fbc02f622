"""A team's secrets: kept encrypted, given to sandboxes by name, and read nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, Problem, SandboxUnsupported
from sandboxes.manifest import Manifest, host_pattern
from sandboxes.models import Environment, Run, Secret
from sandboxes.models.run import ENDED
from sandboxes.models.secret import sealed_values
from sandboxes.providers.delivery import GivenSecret, undelivered
from sandboxes.providers.limits import KIB
from sandboxes.providers.names import ENVIRONMENT_NAME
from sandboxes.providers.registry import provider_spec
from trajectories.redaction import MIN_GIVEN

MAX_NAME, MAX_VALUE_BYTES = 100, 64 * KIB
HEADER, TEMPLATE = "Authorization", "Bearer {}"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_TEXT = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def secret_create(
    *,
    actor: Actor,
    name: str,
    value: str,
    hosts: Sequence[str] = (),
    header: str = HEADER,
    template: str = TEMPLATE,
    description: str = "",
) -> Secret:
    """Keep a new secret; `hosts` are where it may be sent, anywhere if there are none.

    Raises InvalidInput, and Conflict for a taken name.
    """
    actor.require(Action.CONFIGURE)
    kept, problems = _hosts(hosts)
    problems += _problems(name, value, header, template, description, is_sent=bool(hosts))
    if problems:
        raise InvalidInput(problems=problems)
    try:
        with transaction.atomic():
            secret = Secret.objects.create(
                team=actor.team,
                name=name,
                description=description.strip(),
                hosts=kept,
                header=header,
                template=template,
                sealed=sealed_values([value]),
                created_by=actor.user,
            )
            audit_write(actor=actor, act="secret.create", subject=secret, name=name, hosts=kept)
    except IntegrityError:
        raise Conflict(f"There is already a secret named {name}") from None
    return secret


def secret_replace(*, actor: Actor, secret: Secret, value: str) -> None:
    """Give a secret another value, for sandboxes made from now on.

    Raises InvalidInput, and Conflict for one that is archived.
    """
    actor.require(Action.CONFIGURE)
    if problems := list(_value_problems(value, is_sent=bool(secret.hosts))):
        raise InvalidInput(problems=problems)
    with transaction.atomic():
        held = _held(secret)
        # What a sandbox has been given already must still be masked where it comes up.
        before = held.values() if _runs_using(held) else []
        held.sealed = sealed_values([value, *before])
        held.rotated_at = now()
        held.save(update_fields=["sealed", "rotated_at"])
        audit_write(actor=actor, act="secret.replace", subject=held, name=held.name)


def secret_archive(*, actor: Actor, secret: Secret) -> None:
    """Forget a secret's value and take it out of the list.

    Raises Conflict, naming them, while environments refer to it or open runs have it.
    """
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        held = _held(secret)
        if names := environments_using(held):
            listed = ", ".join(names)
            raise Conflict(
                f"{held} is used by {listed}: take it out of environment.secret_refs there first",
                environments=names,
            )
        if runs := _runs_using(held):
            raise Conflict(f"{held} is in use: {', '.join(runs)} must end first", runs=runs)
        held.sealed, held.archived_at = b"", now()
        held.save(update_fields=["sealed", "archived_at"])
        audit_write(actor=actor, act="secret.archive", subject=held, name=held.name)


def secrets_check(*, team: Team, provider: str, manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return what is known of how and where each secret of a manifest goes, by its name.

    Raises InvalidInput for a reference to no secret of the team, and for what the provider cannot
    keep. In a transaction, no secret that is named can be archived before its end.
    """
    delivery = provider_spec(provider).delivers
    references = manifest.environment.secret_refs
    if delivery is None or not references:
        return {}
    rows = Secret.objects.filter(team=team, archived_at=None, name__in=references)
    found = {row.name: row for row in rows.select_for_update()}
    problems = [
        f"There is no secret {reference}: add it to the team's secrets, or take it out of "
        "environment.secret_refs"
        for reference in references
        if reference not in found
    ]
    problems += undelivered(provider, delivery, manifest, list(found.values()))
    if problems:
        path = "manifest.environment.secret_refs"
        listed = [Problem(path=path, message=message) for message in problems]
        raise InvalidInput(problems[0], problems=listed)
    return {
        name: {
            "delivery": delivery.value,
            "is_readable": delivery.is_readable,
            "hosts": row.hosts,
            "header": row.header,
        }
        for name, row in found.items()
    }


def secrets_give(*, run: Run) -> list[GivenSecret]:
    """Return the secrets of a run with their values; call it only where its sandbox is made.

    Raises SandboxUnsupported when one is gone, and Conflict when one cannot be read any more.
    """
    if provider_spec(run.provider).delivers is None:
        return []
    references: list[str] = run.manifest.get("environment", {}).get("secret_refs", [])
    rows = Secret.objects.filter(team_id=run.team_id, archived_at=None, name__in=references)
    found = {row.name: row for row in rows}
    if missing := [name for name in references if name not in found]:
        raise SandboxUnsupported(f"There is no secret {missing[0]} any more")
    given = [_given(found[name]) for name in dict.fromkeys(references)]
    rows.update(last_used_at=now())
    return given


def environments_using(secret: Secret) -> list[str]:
    """Return the names of the environments that refer to a secret."""
    rows = Environment.objects.filter(team_id=secret.team_id).order_by("name")
    return _naming(secret, rows.values_list("name", "manifest"))


def _runs_using(secret: Secret) -> list[str]:
    rows = Run.objects.filter(team_id=secret.team_id).exclude(state__in=ENDED).order_by("id")
    return _naming(secret, ((run.ref, run.manifest) for run in rows.only("id", "manifest")))


def _naming(secret: Secret, manifests: Iterable[tuple[str, Any]]) -> list[str]:
    return [
        name
        for name, manifest in manifests
        if secret.name in (manifest.get("environment") or {}).get("secret_refs", ())
    ]


def _held(secret: Secret) -> Secret:
    """Return a secret with its row locked until the transaction ends; Conflict for an archived one."""
    held = Secret.objects.select_for_update().get(pk=secret.pk)
    if held.archived_at is not None:
        raise Conflict(f"{held} is archived; make a new secret of that name instead")
    return held


def _given(row: Secret) -> GivenSecret:
    return GivenSecret(
        name=row.name,
        value=row.values()[0],
        hosts=tuple(row.hosts),
        header=row.header,
        template=row.template,
    )


def _hosts(hosts: Sequence[str]) -> tuple[list[str], list[Problem]]:
    kept, problems = [], []
    for host in hosts:
        try:
            kept.append(host_pattern(host))
        except ValueError as error:
            problems.append(Problem(path="hosts", message=str(error)))
    return list(dict.fromkeys(kept)), problems


def _problems(
    name: str, value: str, header: str, template: str, description: str, *, is_sent: bool
) -> list[Problem]:
    wrong = {
        "name": "a secret is named like a variable, such as GITHUB_TOKEN, in up to 100 characters"
        if not ENVIRONMENT_NAME.fullmatch(name) or len(name) > MAX_NAME
        else "",
        "header": f"'{header}' cannot name a header" if not _HEADER_NAME.fullmatch(header) else "",
        "template": "what the header says has {} once, where the value goes, such as Bearer {}"
        if template.count("{}") != 1 or not _HEADER_TEXT.fullmatch(template) or len(template) > 200
        else "",
        "description": "a description is one line of up to 200 characters"
        if len(description) > 200 or not (description.isprintable())
        else "",
    }
    problems = [Problem(path=path, message=said) for path, said in wrong.items() if said]
    return [*problems, *_value_problems(value, is_sent=is_sent)]


def _value_problems(value: str, *, is_sent: bool) -> Iterable[Problem]:
    if len(value) < MIN_GIVEN:
        message = f"a secret has at least {MIN_GIVEN} characters; a shorter one could not be masked"
        yield Problem(path="value", message=message)
    if "\0" in value or len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE_BYTES:
        yield Problem(path="value", message="a secret is text of up to 64 KiB without null bytes")
    elif is_sent and not _HEADER_TEXT.fullmatch(value):
        message = (
            "a secret that goes to hosts travels in a header: one line of ASCII, no spaces around"
        )
        yield Problem(path="value", message=message)
