"""The audit log, verifying all records, and the page of people."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from omniweb.accounts.models import Membership, Role, User
from omniweb.accounts.services import user_create
from omniweb.core.audit import audit_write
from omniweb.web import audit
from tests.factories import run_ready
from tests.people import People, browser_for

HTMX = {"HX-Request": "true"}


def hidden(text: str) -> dict[str, str]:
    """Return what a page's form would send again."""
    return dict(
        re.findall(r'type="hidden" name="(after|records|steps|broken)" value="(\w*)"', text)
    )


def test_the_log_says_who_did_what_and_leads_there(people: People) -> None:
    assert people.agent.agent
    text = browser_for(people.viewer).get("/audit").text
    assert "agent.profile" in text
    assert f'href="/agents/{people.agent.agent.ref}"' in text


def test_the_log_is_filtered_by_who_and_by_act(people: People) -> None:
    audit_write(actor=people.operator, act="run.end", subject="run_x", reason="done")
    client = browser_for(people.viewer)
    text = client.get("/audit?actor=operator@").text
    assert "run_x" in text
    assert "system</td>" not in text
    assert "run_x" in client.get("/audit?act=run.end").text
    assert "run_x" not in client.get("/audit?act=user.create").text
    assert "No entry matches" in client.get("/audit?actor=nobody").text


def test_the_log_tells_all_that_was_done_to_one_thing(people: People) -> None:
    audit_write(actor=people.operator, act="run.end", subject="run_x", reason="done")
    audit_write(actor=people.operator, act="run.end", subject="run_y", reason="done")
    text = browser_for(people.viewer).get("/audit?subject=run_x").text
    assert "run_x</td>" in text or ">run_x" in text
    assert "run_y" not in text
    assert 'name="subject" value="run_x"' in text


def test_the_log_goes_on_by_cursor_without_repeating(people: People) -> None:
    for number in range(60):
        audit_write(actor=people.operator, act="run.end", subject=f"run_n{number:02}", n=number)
    client = browser_for(people.viewer)
    first = client.get("/audit?act=run.end").text
    [link] = re.findall(r'href="(\?[^"]*cursor=[^"]+)" rel="next"', first)
    second = client.get("/audit" + link.replace("&amp;", "&")).text
    numbers = [set(re.findall(r"run_n\d\d", text)) for text in (first, second)]
    assert len(numbers[0]) == 50
    assert len(numbers[1]) == 10
    assert not numbers[0] & numbers[1]


def test_another_teams_log_is_its_own(people: People) -> None:
    audit_write(actor=people.operator, act="run.end", subject="run_x")
    assert "run_x" not in browser_for(people.outsider).get("/audit").text


def test_hostile_words_in_the_log_stay_words(people: People) -> None:
    audit_write(actor=people.operator, act="run.end", subject="run_x", reason="\u202e<b>x</b>")
    text = browser_for(people.viewer).get("/audit").text
    assert "\u202e" not in text
    assert "&lt;b&gt;x" in text


@pytest.mark.parametrize(("name", "status"), [("auditor", 200), ("admin", 200), ("viewer", 403)])
def test_auditors_and_admins_verify_all_records(people: People, name: str, status: int) -> None:
    run_ready(people.agent, people.approver)
    client = browser_for(people.everyone[name])
    assert ("Verify all records" in client.get("/audit").text) is (status == 200)
    answer = client.post("/audit/verify")
    assert answer.status_code == status
    if status == 200:
        assert "All records verified" in answer.text
        assert "1 record with" in answer.text


def test_many_records_are_verified_in_slices(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        run_ready(people.agent, people.approver)
    monkeypatch.setattr(audit, "SLICE_SECONDS", -1)
    client = browser_for(people.auditor)
    sent: dict[str, str] = {}
    seen = []
    for _ in range(4):
        text = client.post("/audit/verify?part=progress", sent, headers=HTMX).text
        assert "<html" not in text
        sent = hidden(text)
        seen.append(sent.get("records"))
        if "load" not in text:
            break
    assert seen == ["1", "2", "3", None]
    assert "3 records with" in text


def test_a_changed_step_is_found_and_named(people: People) -> None:
    run = run_ready(people.agent, people.approver)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE trajectories_step SET body = '{}' WHERE trajectory_id = %s AND seq = 2",
            [run.trajectory_id.hex if connection.vendor == "sqlite" else run.trajectory_id],
        )
    text = browser_for(people.auditor).post("/audit/verify").text
    assert "Broken records" in text
    assert f"/runs/{run.ref}?at=2" in text


def test_records_of_other_teams_are_not_counted(people: People) -> None:
    run_ready(people.agent, people.approver)
    assert "No records yet" in browser_for(people.outsider).post("/audit/verify").text


def test_an_admin_invites_someone_with_a_link_shown_once(people: People) -> None:
    client = browser_for(people.admin)
    answer = client.post("/people", {"email": "new@example.org", "role": "approver"})
    [link] = re.findall(r"/sign-in/link/[\w-]+", answer.text)
    assert "no-store" in answer["Cache-Control"]
    assert Membership.objects.get(user__email="new@example.org").role == Role.APPROVER
    text = client.get("/people").text
    assert "new@example.org" in text
    assert link not in text
    assert browser_for(people.admin).get(link).status_code == 200


def test_no_link_is_made_for_someone_of_another_team(people: People) -> None:
    answer = browser_for(people.admin).post(
        "/people", {"email": "outsider@example.org", "role": "viewer"}
    )
    assert "sign-in/link" not in answer.text
    assert "is a member now" in answer.text


def test_a_wrong_invitation_says_why_and_loses_nothing(people: People) -> None:
    client = browser_for(people.admin)
    for email in ("viewer@example.org", "not an address"):
        answer = client.post("/people", {"email": email, "role": "auditor"})
        assert answer.status_code == 422
        assert f'value="{email}"' in answer.text
        assert 'value="auditor" selected' in answer.text


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver", "operator"])
def test_only_admins_see_the_page_of_people(people: People, name: str) -> None:
    client = browser_for(people.everyone[name])
    assert client.get("/people").status_code == 403
    assert client.post("/people", {"email": "x@example.org", "role": "admin"}).status_code == 403
    assert 'href="/people"' not in client.get("/runs").text
    assert 'href="/people"' in browser_for(people.admin).get("/runs").text
    assert not User.objects.filter(email="x@example.org").exists()


def test_people_of_other_teams_are_not_listed(people: People) -> None:
    user_create(actor=people.outsider, email="hidden@example.org", role=Role.VIEWER)
    assert "hidden@example.org" not in browser_for(people.admin).get("/people").text
