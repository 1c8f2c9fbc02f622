"""The pieces of the run page, and who may fetch them."""

from __future__ import annotations

import pytest
from django.urls import reverse

from omniweb.accounts.permissions import Actor
from omniweb.core.errors import InvalidInput, NotFound, NotPermitted
from omniweb.core.realtime import group_for
from tests.people import People, browser_for
from tests.trajectories.build import Command, notes, record
from trajectories.models import Trajectory
from trajectories.services import annotation_add, trajectory_seal
from trajectories.steps import StepKind


@pytest.fixture
def shown(people: People) -> Trajectory:
    """A record of the people's team."""
    trajectory = record(people.team)
    Command(trajectory, "npm test").run(b"<b>ok</b>\n")
    return trajectory


def blob_url(trajectory: Trajectory) -> str:
    digest = trajectory.steps.get(kind="output").payload["digest"]
    return reverse("trajectory_blob", args=[trajectory.ref, digest])


def test_a_raw_step_is_what_was_hashed(people: People, shown: Trajectory) -> None:
    response = browser_for(people.viewer).get(reverse("trajectory_step", args=[shown.ref, 2]))
    assert response.json() == shown.steps.get(seq=2).to_dict()
    assert response["Content-Type"] == "application/json"
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_blob_is_a_download_no_browser_interprets(people: People, shown: Trajectory) -> None:
    response = browser_for(people.viewer).get(blob_url(shown))
    assert response.content == b"<b>ok</b>\n"
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"].startswith("attachment")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_a_window_is_a_fragment(people: People, shown: Trajectory) -> None:
    notes(shown, [str(number) for number in range(150)])
    url = reverse("trajectory_steps", args=[shown.ref])
    first = browser_for(people.viewer).get(url, {"from": "1"}).text
    assert 'id="w1"' in first
    assert "from=101" in first
    assert 'hx-trigger="revealed"' in first
    last = browser_for(people.viewer).get(url, {"from": "101", "windows": "2"}).text
    assert 'id="w101"' in last
    assert f'data-live="trajectory:{shown.ref}"' in last
    assert "Earlier" not in last


def test_verifying_answers_with_the_badge(people: People, shown: Trajectory) -> None:
    url = reverse("trajectory_verify", args=[shown.ref])
    assert "Record verified" in browser_for(people.auditor).post(url).text
    shown.steps.filter(seq=2).update(actor="outsider@example.org")
    assert (
        "Step 2: its content does not have its hash" in browser_for(people.auditor).post(url).text
    )
    assert browser_for(people.auditor).get(url).status_code == 405


@pytest.mark.parametrize("name", ["trajectory_steps", "trajectory_step", "trajectory_blob"])
def test_another_teams_record_is_not_there(people: People, shown: Trajectory, name: str) -> None:
    extra = [2] if name == "trajectory_step" else []
    url = blob_url(shown) if name == "trajectory_blob" else reverse(name, args=[shown.ref, *extra])
    assert browser_for(people.outsider).get(url).status_code == 404
    assert browser_for(people.viewer).get(url).status_code == 200


def test_another_teams_blob_is_not_there_under_an_own_record(
    people: People, shown: Trajectory
) -> None:
    digest = shown.steps.get(kind="output").payload["digest"]
    own = record(people.outsider.team)
    url = reverse("trajectory_blob", args=[own.ref, digest])
    assert browser_for(people.outsider).get(url).status_code == 404


@pytest.mark.parametrize("seq", [0, 99])
def test_a_step_that_is_not_there_is_not_found(people: People, shown: Trajectory, seq: int) -> None:
    url = reverse("trajectory_step", args=[shown.ref, seq])
    assert browser_for(people.viewer).get(url).status_code == 404


def test_a_stranger_is_asked_to_sign_in(people: People, shown: Trajectory, client: object) -> None:
    response = client.get(reverse("trajectory_steps", args=[shown.ref]))  # type: ignore[attr-defined]  # Django's client
    assert response.status_code == 302


def test_an_auditor_annotates_a_sealed_record_and_it_stays_sound(
    people: People, shown: Trajectory
) -> None:
    trajectory_seal(trajectory=shown)
    url = reverse("trajectory_annotations", args=[shown.ref])
    data = {"text": "Looks odd", "seq": "2", "next": "/runs/run_1"}
    response = browser_for(people.auditor).post(url, data)
    step = shown.steps.get(kind=StepKind.ANNOTATION)
    assert response["Location"] == f"/runs/run_1?at={step.seq}#s{step.seq}"
    assert step.payload == {"text": "Looks odd", "seq": 2}
    verify = reverse("trajectory_verify", args=[shown.ref])
    assert "2 signed checkpoints" in browser_for(people.auditor).post(verify).text


@pytest.mark.parametrize("next_url", ["https://x.example/", "//x.example", "javascript:alert(1)"])
def test_an_annotation_leads_nowhere_else(people: People, shown: Trajectory, next_url: str) -> None:
    url = reverse("trajectory_annotations", args=[shown.ref])
    response = browser_for(people.auditor).post(url, {"text": "x", "next": next_url})
    assert response["Location"].startswith("/?at=")


def test_who_may_annotate(people: People, shown: Trajectory) -> None:
    def add(actor: Actor, text: str = "x", seq: int | None = None) -> None:
        annotation_add(actor=actor, trajectory=shown, text=text, seq=seq)

    for actor in (people.viewer, people.approver, people.agent):
        with pytest.raises(NotPermitted):
            add(actor)
    with pytest.raises(NotFound):
        add(people.outsider)
    with pytest.raises(NotFound, match="step 99"):
        add(people.auditor, seq=99)
    with pytest.raises(InvalidInput, match="1 to 4000"):
        add(people.auditor, text=" ")


def test_people_of_the_team_hear_of_new_steps_and_nobody_else(
    people: People, shown: Trajectory
) -> None:
    topic = f"trajectory:{shown.ref}"
    assert group_for(people.viewer, topic)
    assert group_for(people.outsider, topic) is None
    assert group_for(people.agent, topic) is None
    assert group_for(people.viewer, "trajectory:nonsense") is None
