"""The chain: what is hashed, what cannot be changed, who may append at the same time."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction

from omniweb.accounts.models import Team
from omniweb.core.canonical import canonical_json, digest
from omniweb.core.errors import Conflict, InvalidInput
from omniweb.core.ids import ref
from tests.trajectories.build import Command, append, notes, record, said
from trajectories import ledger
from trajectories.blobs import blob_store
from trajectories.ledger import verify
from trajectories.models import FIRST_HASH, Blob, Step, Trajectory
from trajectories.services import step_append, trajectory_seal
from trajectories.signing import public_key, sign
from trajectories.steps import StepKind

KEY = uuid.UUID("0199a3c4-0000-7000-8000-000000000001")


def fixed_step(seq: int, kind: StepKind, payload: dict[str, Any], prev_hash: str) -> Step:
    return Step(
        trajectory_id=KEY,
        seq=seq,
        at=datetime(2026, 11, 30, 14, 2, 11, 120, UTC),
        kind=kind.value,
        actor="agent fix-bot",
        body=canonical_json(payload).decode(),
        prev_hash=prev_hash,
    )


def test_the_bytes_that_are_hashed_are_a_contract() -> None:
    step = fixed_step(1, StepKind.NOTE, {"text": "Grüße\n\u0000 \U0001f600"}, FIRST_HASH)
    assert step.hashed_bytes().decode() == (
        '{"actor":"agent fix-bot","at":"2026-11-30T14:02:11.000120+00:00","kind":"note",'
        '"payload":{"text":"Grüße\\n\\u0000 \U0001f600"},'
        f'"prev_hash":"{"0" * 64}","seq":1,"trajectory":"0199a3c4-0000-7000-8000-000000000001"}}'
    )


@pytest.mark.parametrize(
    ("seq", "kind", "payload", "expected"),
    [
        (
            1,
            StepKind.NOTE,
            {"text": "first"},
            "4db60ce84d44c20380c99ea3499444ce9ab441d9bf509536bd00924b52a1550f",
        ),
        (
            2,
            StepKind.OUTPUT,
            {"execution": "exe_1", "stream": "stdout", "size": 3},
            "dba78e5e024b7132e113e15eee35f49ea7e978776727019a6364ec2a9bc5b9c0",
        ),
        (
            3,
            StepKind.EXECUTION_ENDED,
            {"duration_ms": 45.805, "exit_code": 0},
            "ae84fa902fa32c98223029a5a15a2a802ee3a6a5b0d88b3125a7e15633feda2c",
        ),
    ],
)
def test_hashes_of_known_steps_never_change(
    seq: int, kind: StepKind, payload: dict[str, Any], expected: str
) -> None:
    step = fixed_step(seq, kind, payload, FIRST_HASH)
    step.hash = digest(json.loads(step.hashed_bytes()))
    assert step.hash == expected


def test_an_exported_step_can_be_hashed_by_anyone(trajectory: Trajectory) -> None:
    exported = json.loads(json.dumps(said(trajectory, "Die Prüfung läuft \ud800").to_dict()))
    expected = exported.pop("hash")
    assert digest(exported) == expected


def test_steps_are_numbered_from_one_and_each_names_the_one_before(trajectory: Trajectory) -> None:
    notes(trajectory, ["a", "b"])
    steps = list(trajectory.steps.all())
    assert [step.seq for step in steps] == [1, 2, 3]
    assert [step.prev_hash for step in steps] == [FIRST_HASH, steps[0].hash, steps[1].hash]
    assert (trajectory.head_seq, trajectory.head_hash) == (3, steps[2].hash)
    assert verify(trajectory).ok


@pytest.mark.django_db(transaction=True)
def test_appending_outside_a_transaction_is_a_mistake() -> None:
    trajectory = record(Team.objects.create(name="Harbour"))
    with pytest.raises(RuntimeError, match="atomic"):
        step_append(trajectory=trajectory, kind=StepKind.NOTE, actor="x", payload={"text": "x"})


def test_a_payload_of_another_kind_is_refused_with_its_fields(trajectory: Trajectory) -> None:
    with pytest.raises(InvalidInput, match="verdict"), transaction.atomic():
        step_append(
            trajectory=trajectory,
            kind=StepKind.VOTE,
            actor="x",
            payload={"request": "r", "text": 1},
        )
    assert trajectory.steps.count() == 1


def test_a_step_rolled_back_leaves_no_gap(trajectory: Trajectory) -> None:
    with transaction.atomic():
        step_append(trajectory=trajectory, kind=StepKind.NOTE, actor="x", payload={"text": "never"})
        transaction.set_rollback(True)
    step = append(trajectory, StepKind.NOTE, text="after")
    assert step.seq == 2
    assert verify(trajectory).ok


def test_a_step_too_large_for_the_record_is_refused(trajectory: Trajectory) -> None:
    with pytest.raises(InvalidInput, match="blob"):
        append(trajectory, StepKind.NOTE, text="x" * 1_000_001)


def test_a_sealed_record_takes_nothing_but_annotations(trajectory: Trajectory) -> None:
    assert trajectory_seal(trajectory=trajectory)
    assert not trajectory_seal(trajectory=trajectory)
    with pytest.raises(Conflict, match="sealed"):
        append(trajectory, StepKind.NOTE, text="late")
    found = verify(Trajectory.objects.get(pk=trajectory.pk))
    assert (found.ok, found.steps, found.checkpoints) == (True, 2, 1)


def test_the_key_is_kept_outside_the_database_for_its_owner_only(trajectory: Trajectory) -> None:
    path = settings.DATA_DIR / "ledger_key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(path.read_text())) == 32
    assert verify(trajectory).public_key == public_key()


@pytest.fixture
def told(trajectory: Trajectory) -> Trajectory:
    """A sealed record of ten steps, one of which has a blob."""
    said(trajectory, "Running the suite.")
    Command(trajectory, "npm test", "ask").asked().decided(reason="pinned now").run(b"214 passed\n")
    trajectory_seal(trajectory=trajectory)
    trajectory.refresh_from_db()
    assert verify(trajectory).ok
    return trajectory


COLUMNS: dict[str, Any] = {
    "at": lambda step: step.at + timedelta(microseconds=1),
    "kind": lambda step: "message" if step.kind == "note" else "note",
    "actor": lambda step: "outsider@example.org",
    "body": lambda step: step.body.replace("npm test", "npm  test"),
    "prev_hash": lambda step: "f" * 64,
    "hash": lambda step: "f" * 64,
    "about": lambda step: uuid.uuid4(),
    "turn": lambda step: step.turn + 1,
    "flag": lambda step: (step.flag + 1) % 6,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_column_is_found_where_it_is(told: Trajectory, column: str) -> None:
    step = told.steps.get(seq=3)
    told.steps.filter(seq=3).update(**{column: COLUMNS[column](step)})
    found = verify(told)
    assert (found.ok, found.first_bad_seq) == (False, 3)


def test_every_column_of_a_step_is_covered() -> None:
    columns = {field.name for field in Step._meta.concrete_fields}
    # The two of the key are in the hash, and moving a step is a test below.
    assert columns - {"trajectory", "seq"} == set(COLUMNS)


def rehash(trajectory: Trajectory) -> None:
    """Compute the chain anew, as someone would who writes to the database but has no key."""
    head = FIRST_HASH
    steps = list(Step.objects.filter(trajectory=trajectory).order_by("seq"))
    for step in steps:
        step.prev_hash = head
        head = step.hash = digest(json.loads(step.hashed_bytes()))
        trajectory.steps.filter(seq=step.seq).update(prev_hash=step.prev_hash, hash=head)
    Trajectory.objects.filter(pk=trajectory.pk).update(head_seq=steps[-1].seq, head_hash=head)


def remove_step(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq=4).delete()
    return 4


def cut_tail(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq__gt=5).delete()
    return 6


def cut_tail_and_move_head(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq__gt=5).delete()
    last = trajectory.steps.get(seq=5)
    changes = {"head_seq": 5, "head_hash": last.hash, "sealed_at": None}
    Trajectory.objects.filter(pk=trajectory.pk).update(**changes)
    return 5


def cut_checkpoint(trajectory: Trajectory) -> int:
    last = trajectory.steps.last()
    assert last is not None
    before = trajectory.steps.get(seq=last.seq - 1)
    trajectory.steps.filter(seq=last.seq).delete()
    # Even with a genuine signature of an earlier moment, a sealed record must end in its seal.
    Trajectory.objects.filter(pk=trajectory.pk).update(
        head_seq=before.seq,
        head_hash=before.hash,
        head_signature=sign("head", trajectory.pk, before.seq, before.hash),
    )
    return last.seq


def swap_steps(trajectory: Trajectory) -> int:
    bodies = {step.seq: step.body for step in trajectory.steps.filter(seq__in=(2, 3))}
    trajectory.steps.filter(seq=2).update(body=bodies[3])
    trajectory.steps.filter(seq=3).update(body=bodies[2])
    return 2


def renumber(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq=2).update(seq=99)
    return 2


def change_blob(trajectory: Trajectory) -> int:
    Blob.objects.filter(team=trajectory.team).update(data=b"215 passed\n")
    return trajectory.steps.get(kind="output").seq


def remove_blob(trajectory: Trajectory) -> int:
    Blob.objects.filter(team=trajectory.team).delete()
    return trajectory.steps.get(kind="output").seq


def forge_checkpoint(trajectory: Trajectory) -> int:
    step = trajectory.steps.get(kind="checkpoint")
    payload = {**step.payload, "signature": "0" * 128}
    trajectory.steps.filter(seq=step.seq).update(body=canonical_json(payload).decode())
    rehash(trajectory)
    return step.seq


def rewrite_everything(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq=2).update(actor="approver@example.org")
    rehash(trajectory)
    return trajectory.steps.get(kind="checkpoint").seq


def clear_totals(trajectory: Trajectory) -> int:
    Trajectory.objects.filter(pk=trajectory.pk).update(totals={**trajectory.totals, "failed": 7})
    return trajectory.head_seq


def unreadable_body(trajectory: Trajectory) -> int:
    trajectory.steps.filter(seq=2).update(body="{")
    rehash_one = trajectory.steps.get(seq=2)
    assert rehash_one.body == "{"
    return 2


def step_beyond_head(trajectory: Trajectory) -> int:
    last = trajectory.steps.last()
    assert last is not None
    extra = fixed_step(last.seq + 1, StepKind.NOTE, {"text": "extra"}, last.hash)
    extra.trajectory_id = trajectory.pk
    extra.hash = digest(json.loads(extra.hashed_bytes()))
    extra.save(force_insert=True)
    return extra.seq


@pytest.mark.parametrize(
    "tamper",
    [
        remove_step, cut_tail, cut_tail_and_move_head, cut_checkpoint, swap_steps, renumber,
        change_blob, remove_blob, forge_checkpoint, rewrite_everything, clear_totals,
        unreadable_body, step_beyond_head,
    ],
)  # fmt: skip
def test_tampering_is_found(told: Trajectory, tamper: Callable[[Trajectory], int]) -> None:
    expected = tamper(told)
    found = verify(told)
    assert (found.ok, found.first_bad_seq) == (False, expected)
    assert found.why


def test_a_checkpoint_does_not_pass_for_a_head(told: Trajectory) -> None:
    checkpoint = told.steps.get(kind="checkpoint")
    Trajectory.objects.filter(pk=told.pk).update(head_signature=checkpoint.payload["signature"])
    assert "head is not signed" in verify(told).why


def test_another_teams_equal_blob_does_not_stand_in(told: Trajectory) -> None:
    Blob.objects.filter(team=told.team).delete()
    blob_store(team=Team.objects.create(name="Elsewhere"), data=b"214 passed\n")
    assert "missing" in verify(told).why


def test_a_long_chain_is_read_in_chunks(
    trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_CHUNK", 7)
    notes(trajectory, [f"note {number}" for number in range(30)])
    assert verify(trajectory).steps == 31
    trajectory.steps.filter(seq=22).update(actor="someone")
    assert verify(trajectory).first_bad_seq == 22


@pytest.mark.django_db(transaction=True)
def test_eight_threads_append_to_one_record_without_a_gap() -> None:
    trajectory = record(Team.objects.create(name="Harbour"))
    errors: list[BaseException] = []

    def write(number: int) -> None:
        mine = Trajectory.objects.get(pk=trajectory.pk)
        try:
            for turn in range(10):
                append(mine, StepKind.NOTE, text=f"{number}.{turn}")
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = verify(Trajectory.objects.get(pk=trajectory.pk))
    assert (found.ok, found.steps) == (True, 81)


@pytest.mark.django_db(transaction=True)
def test_verifying_while_others_append_finds_nothing_wrong() -> None:
    trajectory = record(Team.objects.create(name="Harbour"))
    done = threading.Event()

    def write() -> None:
        mine = Trajectory.objects.get(pk=trajectory.pk)
        try:
            for number in range(40):
                append(mine, StepKind.NOTE, text=str(number))
        finally:
            done.set()
            connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        assert verify(trajectory).why == ""
    thread.join()
    assert verify(trajectory).steps == 41


def test_refs_of_executions_and_subjects_mean_the_same(trajectory: Trajectory) -> None:
    command = Command(trajectory, "true").run()
    keys = set(trajectory.steps.exclude(about=None).values_list("about", flat=True))
    assert keys == {command.key}
    assert ref("exe", command.key) == command.execution
