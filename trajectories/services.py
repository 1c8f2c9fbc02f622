"""Opening, extending and sealing trajectories."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.errors import Conflict, InvalidInput, NotFound, Problem
from omniweb.core.realtime import publish
from trajectories import ledger
from trajectories.models import Step, Trajectory
from trajectories.redaction import Redactor, redactor
from trajectories.steps import Annotation, Payload, StepKind, payload_check

MAX_ANNOTATION = 4000


@dataclass(frozen=True, kw_only=True)
class NewStep:
    """A step to append: the actor's label, and a payload of its kind (`trajectories.steps`)."""

    kind: StepKind
    actor: str
    payload: Payload | Mapping[str, Any]


def trajectory_open(*, team: Team, title: str = "") -> Trajectory:
    """Start an empty record."""
    return Trajectory.objects.create(team=team, title=redactor().text(title)[:200])


@contextmanager
def trajectory_held(key: uuid.UUID) -> Iterator[None]:
    """Begin a transaction with the lock on a record, before any other row of its run.

    Appending a step takes this lock anyway. A transaction that takes it last, after rows of the
    run, and one that takes it first would wait for each other for ever; so all take it first.
    """
    with transaction.atomic():
        # SQLite has no row locks: its transactions begin with the only lock there is.
        if transaction.get_connection().features.has_select_for_update:
            row = Trajectory.objects.select_for_update(of=("self",)).filter(pk=key)
            list(row.values_list("pk"))
        yield


def step_append(
    *,
    trajectory: Trajectory,
    kind: StepKind,
    actor: str,
    payload: Payload | Mapping[str, Any],
    clean: Redactor | None = None,
) -> Step:
    """Append one step, in the transaction of the change it tells of.

    `clean` is the redactor of the run, when it has secrets of its own. Raises InvalidInput for
    a payload that is not of its kind, Conflict for a sealed trajectory, RuntimeError outside a
    transaction.
    """
    new = NewStep(kind=kind, actor=actor, payload=payload)
    [step] = steps_append(trajectory=trajectory, steps=[new], clean=clean)
    return step


def steps_append(
    *, trajectory: Trajectory, steps: Sequence[NewStep], clean: Redactor | None = None
) -> list[Step]:
    """Append several steps at once; raises what step_append raises."""
    clean = clean or redactor()
    entries = [
        ledger.Entry(
            kind=step.kind,
            actor=step.actor,
            payload=clean.value(payload_check(step.kind, step.payload)),
        )
        for step in steps
    ]
    if not entries:
        return []
    appended = ledger.append(trajectory, entries)
    publish("trajectory", trajectory.pk)
    return appended


def trajectory_seal(*, trajectory: Trajectory, actor: str = "system") -> bool:
    """End a record with a signed checkpoint; False when it was sealed before."""
    with transaction.atomic():
        try:
            ledger.seal(trajectory, actor)
        except Conflict:
            return False
        publish("trajectory", trajectory.pk)
    return True


def annotation_add(
    *, actor: Actor, trajectory: Trajectory, text: str, seq: int | None = None
) -> Step:
    """Add a person's remark to a record or to one of its steps, sealed or not.

    Raises NotPermitted, NotFound for a step that is not there, InvalidInput for a text that is
    empty or too long.
    """
    actor.require(Action.RECORD_AUDIT)
    if trajectory.team_id != actor.team_id:
        raise NotFound(f"There is no trajectory {trajectory.ref}")
    text = text.strip()
    if not text or len(text) > MAX_ANNOTATION:
        message = f"an annotation has 1 to {MAX_ANNOTATION} characters"
        raise InvalidInput(problems=[Problem(path="text", message=message)])
    if seq is not None and not Step.objects.filter(trajectory=trajectory, seq=seq).exists():
        raise NotFound(f"There is no step {seq} in {trajectory.ref}")
    with transaction.atomic():
        step = step_append(
            trajectory=trajectory,
            kind=StepKind.ANNOTATION,
            actor=actor.label,
            payload=Annotation(text=text, seq=seq),
        )
        if trajectory.sealed_at:
            ledger.checkpoint(trajectory, actor.label)
        audit_write(actor=actor, act="trajectory.annotate", subject=trajectory, seq=seq)
    return step
