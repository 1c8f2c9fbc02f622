"""The chain: each step's hash covers the one before, the head is signed, anyone can verify.

`hash = SHA-256(canonical JSON of {actor, at, kind, payload, prev_hash, seq, trajectory})`;
the first `prev_hash` is 64 zeros, `seq` starts at 1 and has no gaps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from omniweb.core.canonical import canonical_json, digest_bytes
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput
from trajectories.flags import flag_of
from trajectories.models import FIRST_HASH, Blob, Step, Trajectory
from trajectories.signing import is_signed, public_key, sign
from trajectories.steps import StepKind, blob_of, subject_of
from trajectories.tally import Tally

MAX_BODY_BYTES = 1_000_000
_CHUNK = 500

# What may still be added to a sealed trajectory.
AFTER_SEAL = frozenset({StepKind.ANNOTATION, StepKind.CHECKPOINT})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A step about to be appended: its payload is checked and redacted JSON data."""

    kind: StepKind
    actor: str
    payload: dict[str, Any]


def append(trajectory: Trajectory, entries: Sequence[Entry]) -> list[Step]:
    """Append steps to a chain, in the caller's transaction; `trajectory` gets the new head.

    Raises Conflict when the trajectory is sealed and InvalidInput for a payload that is too
    large or no JSON. RuntimeError, a mistake of the caller, outside a transaction.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("append steps inside transaction.atomic(), with the change they tell of")
    head = _lock(trajectory)
    if head.sealed_at and any(entry.kind not in AFTER_SEAL for entry in entries):
        raise Conflict(f"{trajectory.ref} is sealed; nothing but annotations can be added")
    tally = head.tally
    moment = now()
    steps = []
    for entry in entries:
        step = Step(
            trajectory_id=head.pk,
            seq=head.head_seq + 1,
            at=moment,
            kind=entry.kind.value,
            actor=entry.actor[:200],
            body=_body(entry.payload),
            prev_hash=head.head_hash,
            about=subject_of(entry.payload),
            flag=flag_of(entry.kind, entry.payload),
        )
        tally.add(entry.kind, entry.payload)
        step.turn = tally.turns
        step.hash = hashlib.sha256(step.hashed_bytes()).hexdigest()
        head.head_seq, head.head_hash = step.seq, step.hash
        steps.append(step)
    _insert(steps)
    _move_head(trajectory, head, tally)
    return steps


def _lock(trajectory: Trajectory) -> Trajectory:
    # Excludes every other appender to this chain until the transaction ends. SQLite has no row
    # locks and needs none: its transactions begin IMMEDIATE, so there is one writer at a time.
    return Trajectory.objects.select_for_update(of=("self",)).get(pk=trajectory.pk)


def _insert(steps: Sequence[Step]) -> None:
    # By hand, because Django takes longer over an INSERT than all else here together.
    connection = transaction.get_connection()
    fields = Step._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    rows = [
        [field.get_db_prep_save(getattr(step, field.attname), connection) for field in fields]
        for step in steps
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {Step._meta.db_table} ({columns}) VALUES ({places})",  # noqa: S608 -- our own names
            rows,
        )
    for step in steps:
        step._state.adding = False
        step._state.db = connection.alias


def _move_head(trajectory: Trajectory, head: Trajectory, tally: Tally) -> None:
    changes = {
        "head_seq": head.head_seq,
        "head_hash": head.head_hash,
        "head_signature": sign("head", head.pk, head.head_seq, head.head_hash),
        "totals": tally.to_dict(),
    }
    Trajectory.objects.filter(pk=head.pk).update(**changes)
    for name, value in {**changes, "sealed_at": head.sealed_at}.items():
        setattr(trajectory, name, value)


def _body(payload: dict[str, Any]) -> str:
    try:
        body = canonical_json(payload)
    except ValueError as error:
        raise InvalidInput(f"a step can only hold JSON: {error}") from None
    if len(body) > MAX_BODY_BYTES:
        raise InvalidInput(
            f"a step of {len(body)} bytes is too large; put what is over {MAX_BODY_BYTES} in a blob"
        )
    # Half a surrogate pair is no text; neither database would keep it.
    return body.decode("utf-8", "replace")


def checkpoint(trajectory: Trajectory, actor: str) -> Step:
    """Append a signature over the chain as it stands."""
    head = _lock(trajectory)
    payload = {
        "count": head.head_seq,
        "head": head.head_hash,
        "public_key": public_key(),
        "signature": sign("checkpoint", head.pk, head.head_seq, head.head_hash),
        "algorithm": "ed25519",
    }
    [step] = append(trajectory, [Entry(kind=StepKind.CHECKPOINT, actor=actor, payload=payload)])
    return step


def seal(trajectory: Trajectory, actor: str) -> None:
    """End a chain with a checkpoint, in the caller's transaction; Conflict when it was sealed."""
    # Taken before looking: two who seal at once must not both see an open chain.
    head = _lock(trajectory)
    if head.sealed_at:
        raise Conflict(f"{head.ref} is sealed already")
    checkpoint(trajectory, actor)
    trajectory.sealed_at = now()
    trajectory.save(update_fields=["sealed_at"])


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What verifying a chain found. `steps` counts those read; `why` is a sentence."""

    ok: bool
    steps: int
    head: str
    checkpoints: int
    public_key: str
    first_bad_seq: int | None = None
    why: str = ""


class _Broken(Exception):
    def __init__(self, seq: int, why: str) -> None:
        self.seq = seq
        self.why = why


class _Reader:
    """Walks a chain from its start and remembers only where it is."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.seq = 0
        self.head = FIRST_HASH
        self.checkpoints = 0
        self.last_kind = ""
        self.tally = Tally()

    def read(self) -> None:
        """Read all steps; raises _Broken at the first that is wrong.

        No lock is held: what is appended meanwhile moves the head, and is read as well.
        """
        while True:
            row = Trajectory.objects.get(pk=self.trajectory.pk)
            for chunk in self._chunks(row.head_seq):
                self._chunk(chunk)
            self._end(row)
            if not Step.objects.filter(trajectory=row, seq__gt=row.head_seq).exists():
                return
            if Trajectory.objects.get(pk=row.pk).head_seq == row.head_seq:
                raise _Broken(row.head_seq + 1, "there are steps beyond the head")

    def _chunks(self, last: int) -> Iterator[list[Step]]:
        rows = Step.objects.filter(trajectory=self.trajectory, seq__lte=last).order_by("seq")
        while chunk := list(rows.filter(seq__gt=self.seq)[:_CHUNK]):
            yield chunk

    def _chunk(self, chunk: list[Step]) -> None:
        wanted: dict[str, int] = {}
        for step in chunk:
            payload = self._step(step)
            if digest := blob_of(step.kind, payload):
                wanted.setdefault(digest, step.seq)
        self._blobs(wanted)

    def _step(self, step: Step) -> dict[str, Any]:
        expected = self.seq + 1
        if step.seq != expected:
            raise _Broken(expected, f"step {expected} is missing")
        if step.prev_hash != self.head:
            raise _Broken(step.seq, "it does not follow the step before it")
        if hashlib.sha256(step.hashed_bytes()).hexdigest() != step.hash:
            raise _Broken(step.seq, "its content does not have its hash")
        payload: dict[str, Any] = json.loads(step.body)
        self.tally.add(step.kind, payload)
        derived = (subject_of(payload), flag_of(step.kind, payload), self.tally.turns)
        if (step.about, step.flag, step.turn) != derived:
            raise _Broken(step.seq, "a column derived from its payload was changed")
        if step.kind == StepKind.CHECKPOINT:
            self._checkpoint(step.seq, payload)
        self.seq, self.head, self.last_kind = step.seq, step.hash, step.kind
        return payload

    def _checkpoint(self, seq: int, payload: dict[str, Any]) -> None:
        count, head = payload["count"], payload["head"]
        if (count, head) != (self.seq, self.head):
            raise _Broken(seq, f"the checkpoint speaks of {count} steps of another chain")
        if not is_signed(payload["signature"], "checkpoint", self.trajectory.pk, count, head):
            raise _Broken(seq, "the checkpoint is not signed by this installation's key")
        self.checkpoints += 1

    def _blobs(self, wanted: dict[str, int]) -> None:
        blobs = Blob.objects.filter(team_id=self.trajectory.team_id, digest__in=wanted)
        for blob in blobs.iterator(chunk_size=1):
            if digest_bytes(bytes(blob.data)) != blob.digest or len(blob.data) != blob.size:
                raise _Broken(wanted[blob.digest], f"the content of blob {blob.digest} was changed")
            del wanted[blob.digest]
        if wanted:
            digest, seq = min(wanted.items(), key=lambda item: item[1])
            raise _Broken(seq, f"blob {digest} is missing")

    def _end(self, row: Trajectory) -> None:
        if (row.head_seq, row.head_hash) != (self.seq, self.head):
            where = min(row.head_seq, self.seq) + 1
            raise _Broken(where, f"the record has {self.seq} steps, its head says {row.head_seq}")
        if self.seq and not is_signed(row.head_signature, "head", row.pk, self.seq, self.head):
            raise _Broken(self.seq, "the head is not signed by this installation's key")
        if row.sealed_at and self.last_kind != StepKind.CHECKPOINT:
            raise _Broken(self.seq + 1, "it is sealed, but its last checkpoint is missing")
        # A release that adds a total has to recount the stored ones in a migration.
        if self.seq and row.tally != self.tally:
            raise _Broken(self.seq, "the stored totals are not those of the steps")


def verify(trajectory: Trajectory) -> Verification:
    """Check a whole chain: order, hashes, blobs, checkpoints, head. Memory stays constant."""
    reader = _Reader(trajectory)
    broken: _Broken | None = None
    try:
        reader.read()
    except _Broken as found:
        broken = found
    except (ValueError, KeyError, TypeError) as error:
        broken = _Broken(reader.seq + 1, f"it cannot be read: {type(error).__name__}")
    return Verification(
        ok=broken is None,
        steps=reader.seq,
        head=reader.head,
        checkpoints=reader.checkpoints,
        public_key=public_key(),
        first_bad_seq=broken.seq if broken else None,
        why=broken.why if broken else "",
    )
