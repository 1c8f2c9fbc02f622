"""The command that verifies all chains."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from omniweb.accounts.models import Team
from sandboxes.services.runs import run_open
from tests.people import People
from tests.trajectories.build import notes, record
from trajectories.models import Trajectory


def run(*args: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("verify_ledger", *args, stdout=out)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def test_sound_records_end_with_zero(team: Team) -> None:
    notes(record(team), ["a", "b"])
    record(team)
    code, text = run()
    assert code == 0
    assert "2 trajectories with 4 steps verified, 0 broken" in text


def test_a_broken_record_is_named_and_ends_with_one(trajectory: Trajectory, team: Team) -> None:
    notes(trajectory, ["a", "b"])
    sound = record(team)
    trajectory.steps.filter(seq=2).update(actor="outsider@example.org")
    code, text = run()
    assert code == 1
    assert f"{trajectory.ref} step 2: its content does not have its hash" in text
    code, text = run("--json")
    assert code == 1
    found = json.loads(text)
    assert (found["ok"], found["trajectories"]) == (False, 2)
    assert found["broken"][0]["trajectory"] == trajectory.ref
    assert run(sound.ref)[0] == 0


def test_a_run_is_as_good_a_name_as_its_record(people: People) -> None:
    run_row = run_open(actor=people.agent, title="flaky checkout test")
    code, text = run(run_row.ref)
    assert code == 0
    assert text.startswith("1 trajectories")
    run_row.trajectory.steps.filter(seq=1).update(actor="outsider@example.org")
    assert run(run_row.ref)[0] == 1


def test_an_unknown_reference_is_refused(trajectory: Trajectory) -> None:
    with pytest.raises(CommandError, match="trj_"):
        run("req_unknown")
