"""State changes as conditional updates: only one of two racing writers succeeds.

Each model lists its arrows beside it, `TRANSITIONS = {state: {next, …}}`. An
arrow that does not exist is an error; an arrow someone else took first is False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from django.db.models import Model

from omniweb.core.errors import IllegalTransition

Arrows = Mapping[str, frozenset[str]]


class Stateful(Protocol):
    """A model with a `state` column and a table of arrows."""

    TRANSITIONS: ClassVar[Arrows]
    state: str


def arrows(table: Mapping[str, Iterable[str]]) -> Arrows:
    """Freeze a transition table; fails at import when an arrow leads to an unknown state."""
    frozen = {state: frozenset(targets) for state, targets in table.items()}
    unknown = {target for targets in frozen.values() for target in targets} - frozen.keys()
    if unknown:
        raise ValueError(f"arrows lead to states without an entry: {sorted(unknown)}")
    return frozen


def transition(
    row: Any,
    to: str,
    *,
    source: Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    **changes: Any,
) -> bool:
    """Move a row to a state if it is still in one that allows it; return whether it moved.

    `source` narrows the states it may come from and `where` adds conditions, such
    as a fencing token; `changes` are written in the same UPDATE. The row in memory
    is brought up to date only when it moved. Raises IllegalTransition when no
    arrow leads to `to`.
    """
    model: type[Model] = type(row)
    sources = [state for state, targets in row.TRANSITIONS.items() if to in targets]
    if source is not None:
        sources = [state for state in sources if state in set(source)]
    if not sources:
        raise IllegalTransition(f"Nothing leads a {model._meta.verbose_name} to {to}")
    rows = model._default_manager.filter(pk=row.pk, state__in=sources, **(where or {}))
    moved = rows.update(state=to, **changes)
    if moved:
        for name, value in {"state": to, **changes}.items():
            setattr(row, name, value)
    return bool(moved)
