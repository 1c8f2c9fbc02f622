"""Secrets that Daytona keeps for one sandbox: apart from it, by name, until they are forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import daytona
from daytona.common.errors import create_daytona_error
from daytona.common.secret import CreateSecretParams
from daytona_api_client import Secret
from daytona_api_client.exceptions import ApiException

from sandboxes.providers.base import Owner
from sandboxes.providers.delivery import GivenSecret

# What the names of all sandboxes of ours begin with, and so those of their secrets.
OURS = "omniweb-"


def variables(sandbox: str, given: Sequence[GivenSecret]) -> dict[str, str]:
    """Return what each variable of a sandbox stands for: the name of its secret at Daytona."""
    return {secret.name: f"{sandbox}-{secret.name}" for secret in given}


def keep(client: daytona.Daytona, sandbox: str, given: Sequence[GivenSecret], owner: Owner) -> None:
    """Have Daytona keep the secrets of a sandbox, and whose they are; may be done twice."""
    names = variables(sandbox, given)
    for secret in given:
        wanted = CreateSecretParams(
            name=names[secret.name],
            value=secret.value,
            hosts=list(secret.hosts),
            description=f"{owner.install} {owner.run} {owner.sandbox}",
        )
        # A conflict is an attempt before, whose answer was lost: nobody else knows the name.
        with suppress(daytona.DaytonaConflictError), _explained():
            client.secret.create(wanted)


def forget(client: daytona.Daytona, sandbox: str) -> None:
    """Have Daytona forget the secrets of a sandbox; may be done twice."""
    for secret in list(_listed(client, f"{sandbox}-")):
        with suppress(daytona.DaytonaNotFoundError), _explained():
            client.secret.delete(secret.id)


def kept(client: daytona.Daytona, install: str) -> Mapping[str, Owner]:
    """Return whose secrets Daytona keeps for an installation, by the names of their sandboxes."""
    found: dict[str, Owner] = {}
    for secret in _listed(client, OURS):
        match (secret.description or "").split(" "):
            case [of, run, sandbox] if of == install:
                # Names of variables have no dash in them.
                found[secret.name.rpartition("-")[0]] = Owner(install=of, run=run, sandbox=sandbox)
    return found


def _listed(client: daytona.Daytona, part: str) -> Iterator[Secret]:
    cursor: str | None = None
    while True:
        with _explained():
            page = client.secret.list(cursor=cursor, limit=200, name=part)
        # It is asked for as a part of the name.
        yield from (secret for secret in page.items if secret.name.startswith(part))
        cursor = page.next_cursor
        if not cursor:
            return


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what the SDK lets through as it is, of secrets only, into what it raises elsewhere."""
    try:
        yield
    except ApiException as error:
        said = str(error.body or error.reason)
        raise create_daytona_error(said, status_code=error.status) from None
