"""The secrets a run is given, so that they are masked wherever they come up again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from omniweb.core.errors import Conflict
from sandboxes.models import Run, Secret
from trajectories.patterns import is_secret_name
from trajectories.redaction import MIN_KNOWN, Redactor, redactor

# What stands for a secret of an environment; sent back in a change, the secret stays as it is.
HIDDEN = "********"


def redactor_for(run: Run, env: Mapping[str, str] | None = None) -> Redactor:
    """Return a redactor that also knows the run's secrets, and its and the command's own variables."""
    environment = run.manifest.get("environment", {})
    variables = {**environment.get("plain", {}), **(env or {})}
    values = [value for name, value in variables.items() if is_secret_name(name)]
    return redactor(known=[*values, *_given(run, environment.get("secret_refs"))])


def _given(run: Run, references: Sequence[str] | None) -> Iterator[str]:
    """Yield what a run's sandboxes may have been given, and each longer line of it."""
    if not references:
        return
    for secret in Secret.objects.filter(team_id=run.team_id, archived_at=None, name__in=references):
        # One that cannot be read could not be given either.
        with suppress(Conflict):
            for value in secret.values():
                yield value
                yield from (line for line in value.splitlines() if len(line) >= MIN_KNOWN)


def hidden(data: Mapping[str, Any], secret: Container[str] = ()) -> dict[str, Any]:
    """Return options or a manifest with its secrets replaced by HIDDEN.

    Secret is what has a secret's name, and all that is under one of the names in `secret`.
    """
    return {name: _hidden(name, value, name in secret) for name, value in data.items()}


def _hidden(name: str, value: Any, is_secret: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _hidden(key, item, is_secret) for key, item in value.items()}
    is_text = isinstance(value, str) and value != ""
    return HIDDEN if is_text and (is_secret or is_secret_name(name)) else value


def revealed(sent: Any, kept: Any) -> Any:
    """Return what was sent, with everything that reads HIDDEN as it was kept in the same place."""
    if sent == HIDDEN:
        return kept
    if not isinstance(sent, Mapping):
        return sent
    held = kept if isinstance(kept, Mapping) else {}
    return {name: revealed(value, held.get(name)) for name, value in sent.items()}
