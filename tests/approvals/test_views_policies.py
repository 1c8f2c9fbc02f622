"""Policies, decisions and grants in a browser."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from approvals.models import Decision, Grant, Policy, PolicyVersion, Scope
from approvals.selectors import policy_for
from approvals.services.policies import policy_create, version_create
from omniweb.accounts.permissions import system
from omniweb.core.models import AuditEntry
from sandboxes.models import Run
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote
from tests.people import People, browser_for

BROKEN = """\
name: broken
rules:
  ask:
    - rule_id: ask_push
      capability: proces.exec
"""


@pytest.fixture
def policy(people: People) -> Policy:
    """A policy with two versions, of which the second is active."""
    actor = system(people.team)
    made = policy_create(actor=actor, name="open", source=OPEN_POLICY, note="At first")
    version_create(
        actor=actor,
        policy=made,
        source=OPEN_POLICY.replace("permissive", "strict"),
        note="Stricter",
    )
    return made


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that is asked about `git push`."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


def text(client_page: object) -> str:
    return re.sub(r"\s+", " ", client_page.content.decode())  # type: ignore[attr-defined]  # a response


def test_the_list_says_how_each_policy_is_made_and_used(people: People, run: Run) -> None:
    ask(people.agent, run, "git push")
    html = text(browser_for(people.viewer).get("/policies"))
    row = html[html.index(">open</a>") :].split("</tr>")[0]
    cells = re.findall(r'data-label="(\w+)[^"]*">(?:<[^>]+>)?(\w+)', row)
    assert ("Deny", "1") in cells
    assert ("Ask", "1") in cells
    assert ("Agents", "1") in cells
    assert ("Waiting", "1") in cells
    assert "built in" in html


def test_a_policy_shows_its_rules_in_the_order_they_win(people: People, policy: Policy) -> None:
    html = text(browser_for(people.viewer).get(f"/policies/{policy.ref}"))
    assert html.index("deny_rm") < html.index("ask_git_push")
    assert "git push" in html
    assert "Version 2: Stricter" in html
    assert "New version" not in html


def test_an_earlier_version_can_be_read_and_made_active_again(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    path = f"/policies/{policy.ref}/1"
    assert "Not active" in text(client.get(path))
    answer = client.post(f"{path}/activate", {"note": "The new one was too strict"})
    assert answer.headers["Location"] == f"/policies/{policy.ref}"
    policy.refresh_from_db()
    assert policy.active_version is not None
    assert policy.active_version.number == 1
    entry = AuditEntry.objects.filter(act="policy.activate").first()
    assert entry is not None
    assert entry.detail["note"] == "The new one was too strict"


def test_a_new_policy_is_saved_and_shown(people: People) -> None:
    client = browser_for(people.operator)
    sent = {"name": "ours", "source": OPEN_POLICY, "note": "First"}
    answer = client.post("/policies/new", sent)
    policy = policy_for(people.team, "ours")
    assert answer.headers["Location"] == f"/policies/{policy.ref}"
    assert "Saved. ours has a new active version." in text(client.get(answer.headers["Location"]))


def test_a_document_that_is_refused_comes_back_whole_with_line_and_reason(people: People) -> None:
    sent = {"name": "ours", "source": BROKEN, "note": "Try"}
    answer = browser_for(people.operator).post("/policies/new", sent)
    html = text(answer)
    assert answer.status_code == 422
    assert "Line 5" in html
    assert "unknown capability &#x27;proces.exec&#x27;" in html
    assert "did you mean" in html
    assert "capability: proces.exec" in html
    assert 'value="ours"' in html
    assert 'value="Try"' in html
    assert not Policy.objects.filter(name="ours").exists()


def test_what_a_new_policy_starts_with_leaves_nothing_to_say(people: People) -> None:
    html = text(browser_for(people.operator).get("/policies/new"))
    assert "Can be activated" in html
    assert "data-mark" not in html


def test_a_name_that_is_taken_is_said_beside_the_name(people: People) -> None:
    sent = {"name": "interactive-dev", "source": OPEN_POLICY}
    answer = browser_for(people.operator).post("/policies/new", sent)
    assert "There is already a policy named interactive-dev" in text(answer)


def test_a_built_in_policy_is_duplicated_to_be_changed(people: People) -> None:
    built_in = policy_for(people.team, "interactive-dev")
    client = browser_for(people.operator)
    assert client.get(f"/policies/{built_in.ref}/new").status_code == 409
    html = text(client.get("/policies/new", {"from": built_in.ref}))
    assert "Starts as a copy of interactive-dev" in html
    assert "ask_sandbox_network" in html
    assert 'value="interactive-dev-copy"' in html


def test_a_new_version_starts_from_the_active_one_and_becomes_it(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    path = f"/policies/{policy.ref}/new"
    assert "mode: strict" in text(client.get(path))
    client.post(path, {"source": OPEN_POLICY, "note": "Back"})
    newest = PolicyVersion.objects.filter(policy=policy).first()
    assert newest is not None
    assert (newest.number, newest.note, newest.created_by) == (3, "Back", people.operator.user)


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_only_who_may_configure_changes_policies(people: People, policy: Policy, name: str) -> None:
    client = browser_for(getattr(people, name))
    assert client.get("/policies/new").status_code == 403
    assert client.post("/policies/new", {"name": "x", "source": OPEN_POLICY}).status_code == 403
    assert client.post(f"/policies/{policy.ref}/1/activate").status_code == 403


def test_another_teams_policies_are_not_found(people: People, policy: Policy) -> None:
    client = browser_for(people.outsider)
    for path in ("", "/1", "/new"):
        assert client.get(f"/policies/{policy.ref}{path}").status_code == 404
    assert client.post(f"/policies/{policy.ref}/1/activate").status_code == 404


def test_a_version_that_does_not_exist_is_not_found(people: People, policy: Policy) -> None:
    assert browser_for(people.viewer).get(f"/policies/{policy.ref}/9").status_code == 404


def test_a_decision_explains_itself(people: People, run: Run) -> None:
    ask(people.agent, run, "git push <b>")
    decision = Decision.objects.get(capability="process.exec")
    html = text(browser_for(people.auditor).get(f"/decisions/{decision.ref}"))
    assert "ask_git_push" in html
    assert "Publishing needs a person." in html
    assert f"/runs/{run.ref}?at=" in html
    assert "matched_ask" in html
    assert "rule about process.exec did not match" in html
    assert "&quot;capability&quot;: &quot;process.exec&quot;" in html
    assert "<b>" not in html[html.index("What was asked") :]


def test_another_teams_decision_is_not_found(people: People, run: Run) -> None:
    ask(people.agent, run, "rm -rf build")
    decision = Decision.objects.get(effect="deny")
    path = f"/decisions/{decision.ref}"
    assert browser_for(people.outsider).get(path).status_code == 404
    assert "deny_rm" in text(browser_for(people.viewer).get(path))


def test_standing_yeses_are_listed_and_taken_back(people: People, run: Run) -> None:
    client = browser_for(people.approver)
    assert "No standing yeses" in text(client.get("/grants"))
    request = request_of(ask(people.agent, run, "git push"))
    vote(people.approver, request, scope=Scope.RUN)
    grant = Grant.objects.get()
    assert "fix-bot wants to run git" in text(client.get("/grants"))
    rule = f'href="/policies/{request.version.policy.ref}/suggest"'
    for page in ("/grants", f"/inbox/{request.ref}"):
        assert rule in browser_for(people.admin).get(page).text
        assert rule not in client.get(page).text
    path = f"/grants/{grant.ref}/revoke"
    assert browser_for(people.outsider).post(path).status_code == 404
    assert browser_for(people.viewer).post(path).status_code == 403
    client.post(path)
    assert "revoked" in text(client.get("/grants"))
    assert ask(people.agent, run, "git push").state == "waiting"


FAILING = f"{OPEN_POLICY}tests:\n  - {{request: {{capability: secret.use}}, expect: deny}}\n"


def test_a_text_is_checked_while_it_is_written(people: People) -> None:
    client = browser_for(people.operator)
    html = text(client.post("/policies/check", {"source": BROKEN}))
    assert 'data-mark="5"' in html
    assert "Cannot be saved yet" in html
    # The rules stay as they were until the text can be read again.
    assert "check-rules" not in html
    html = text(client.post("/policies/check", {"source": OPEN_POLICY}))
    assert "Can be activated" in html
    assert html.index("check-rules") < html.index("deny_rm") < html.index("ask_git_push")


def test_checking_without_scripts_saves_nothing_and_keeps_what_was_typed(people: People) -> None:
    sent = {"name": "ours", "source": FAILING, "note": "Try", "act": "check"}
    answer = browser_for(people.operator).post("/policies/new", sent)
    html = text(answer)
    assert answer.status_code == 200
    assert "1 kept test fails" in html
    assert "expects <b>deny</b>, the policy decides <b>allow</b>" in html
    assert 'value="Try"' in html
    assert not Policy.objects.filter(name="ours").exists()


def test_a_version_whose_tests_fail_can_be_saved_as_a_draft_only(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    path = f"/policies/{policy.ref}/new"
    refused = client.post(path, {"source": FAILING, "act": "activate"})
    assert refused.status_code == 422
    assert "Not saved" in text(refused)
    saved = client.post(path, {"source": FAILING, "act": "draft"})
    assert saved.headers["Location"] == f"/policies/{policy.ref}/3"
    html = text(client.get(saved.headers["Location"]))
    assert "It cannot be activated" in html
    assert "as a draft" in html
    answer = client.post(f"/policies/{policy.ref}/3/activate")
    assert answer.status_code == 422
    assert "expects deny, but the policy decides allow" in text(answer)


def test_whoever_was_overtaken_is_told_and_keeps_the_text(people: People, policy: Policy) -> None:
    path = f"/policies/{policy.ref}/new"
    assert 'name="base" value="2"' in text(browser_for(people.operator).get(path))
    sent = {"source": OPEN_POLICY.replace("deny_rm", "deny_mine"), "base": "2"}
    browser_for(people.admin).post(path, {"source": OPEN_POLICY, "base": "2", "note": "First"})
    client = browser_for(people.operator)
    answer = client.post(path, sent)
    html = text(answer)
    assert answer.status_code == 409
    assert "<b>admin@example.org</b> saved version 3" in html
    assert "First" in html
    assert "deny_mine" in html
    assert 'name="base" value="3"' in html
    assert "on top of version 3" in html
    client.post(path, sent | {"base": "3"})
    assert PolicyVersion.objects.filter(policy=policy).count() == 4


def test_a_file_replaces_the_text_and_is_looked_at_first(people: People) -> None:
    client = browser_for(people.operator)
    document = SimpleUploadedFile("policy.json", b'{"name": "theirs", "mode": "strict"}')
    sent = {"source": "typed", "note": "", "name": "", "upload": document, "act": "activate"}
    html = text(client.post("/policies/new", sent))
    assert "&quot;name&quot;: &quot;theirs&quot;" in html
    assert not Policy.objects.filter(name="theirs").exists()
    binary = SimpleUploadedFile("policy.bin", b"\xff\xfe")
    html = text(client.post("/policies/new", {"source": "typed", "upload": binary}))
    assert "not text in UTF-8" in html
    assert ">typed</textarea>" in html.replace("> typed", ">typed")


def test_lines_are_kept_with_one_kind_of_end(people: People) -> None:
    client = browser_for(people.operator)
    client.post("/policies/new", {"name": "ours", "source": OPEN_POLICY.replace("\n", "\r\n")})
    active = policy_for(people.team, "ours").active_version
    assert active is not None
    assert active.source == OPEN_POLICY


def test_two_versions_are_compared_in_text_and_meaning(people: People, policy: Policy) -> None:
    client = browser_for(people.viewer)
    html = text(client.get(f"/policies/{policy.ref}/diff"))
    assert "Version 1 → 2" in html
    assert '<span class="muted">mode' not in html
    assert "the policy&#x27;s mode" in html or "the policy's mode" in html
    assert 'class="del"' in html
    assert "mode: permissive" in html
    html = text(client.get(f"/policies/{policy.ref}/diff", {"from": "2", "to": "2"}))
    assert html.count("the same") == 2
    for query in ({"to": "9"}, {"from": "x"}, {"from": "9" * 30}):
        assert client.get(f"/policies/{policy.ref}/diff", query).status_code == 404


def test_whoever_was_overtaken_sees_what_was_changed(people: People, policy: Policy) -> None:
    path = f"/policies/{policy.ref}/new"
    theirs = OPEN_POLICY.replace("deny_rm", "deny_theirs")
    browser_for(people.admin).post(path, {"source": theirs, "base": "2"})
    html = text(browser_for(people.operator).post(path, {"source": OPEN_POLICY, "base": "2"}))
    overtaken = html[html.index("What admin@example.org changed since version 2") :]
    assert overtaken.index('class="add"') < overtaken.index("deny_theirs")
    # A page that was tampered with is told as much as can be.
    answer = browser_for(people.operator).post(path, {"source": OPEN_POLICY, "base": "77"})
    assert answer.status_code == 409


def test_a_policy_is_archived_found_in_the_archive_and_restored(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    assert client.post(f"/policies/{policy.ref}/archive").headers["Location"] == "/policies"
    html = text(client.get("/policies"))
    assert f"/policies/{policy.ref}" not in html
    assert "1 in the archive" in html
    assert policy.ref in text(client.get("/policies", {"show": "archive"}))
    html = text(client.get(f"/policies/{policy.ref}"))
    assert "Archived" in html
    assert "New version" not in html
    assert client.post(f"/policies/{policy.ref}/new", {"source": OPEN_POLICY}).status_code == 422
    client.post(f"/policies/{policy.ref}/restore")
    assert policy.ref in text(client.get("/policies"))
    assert "The archive is empty" in text(client.get("/policies", {"show": "archive"}))


def test_a_policy_in_use_is_not_archived_and_says_by_whom(people: People, run: Run) -> None:
    policy = policy_for(people.team, "open")
    answer = browser_for(people.operator).post(f"/policies/{policy.ref}/archive")
    assert answer.status_code == 409
    assert "fix-bot" in text(answer)


def test_an_archived_policy_is_not_offered_for_agents(people: People, policy: Policy) -> None:
    client = browser_for(people.operator)
    assert f'<option value="{policy.pk}"' in text(client.get("/agents/new"))
    client.post(f"/policies/{policy.ref}/archive")
    assert f'<option value="{policy.pk}"' not in text(client.get("/agents/new"))


def test_where_it_takes_a_second_person_an_author_only_saves_drafts(
    people: People, policy: Policy
) -> None:
    author, other = browser_for(people.operator), browser_for(people.admin)
    author.post(f"/policies/{policy.ref}/second-person", {"needed": "yes"})
    path = f"/policies/{policy.ref}/new"
    assert "Save and activate" not in text(author.get(path))
    refused = author.post(path, {"source": OPEN_POLICY, "act": "activate"})
    assert "someone else activates it" in text(refused)
    author.post(path, {"source": OPEN_POLICY, "act": "draft"})
    assert "You wrote this version" in text(author.get(f"/policies/{policy.ref}/3"))
    assert author.post(f"/policies/{policy.ref}/3/activate").status_code == 403
    assert "You wrote this version" not in text(other.get(f"/policies/{policy.ref}/3"))
    assert other.post(f"/policies/{policy.ref}/3/activate").status_code == 302
    assert author.post(f"/policies/{policy.ref}/second-person", {"needed": "no"}).status_code == 403
    other.post(f"/policies/{policy.ref}/second-person", {"needed": "no"})
    assert "Save and activate" in text(author.get(path))


def test_a_version_is_taken_away_as_a_file(people: People, policy: Policy) -> None:
    client = browser_for(people.viewer)
    answer = client.get(f"/policies/{policy.ref}/2/export", {"as": "json"})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="open-2.json"'
    assert answer.json()["mode"] == "strict"
    answer = client.get(f"/policies/{policy.ref}/2/export", {"for": "omnicoreagent"})
    assert answer.headers["Content-Type"] == "application/yaml; charset=utf-8"
    assert "mode: strict" in answer.content.decode()
    assert client.get(f"/policies/{policy.ref}/2/export", {"as": "xml"}).status_code == 404


def test_a_copy_starts_from_a_draft_where_nothing_is_active(people: People) -> None:
    client = browser_for(people.operator)
    source = OPEN_POLICY.replace("deny_rm", "deny_mine")
    client.post("/policies/new", {"name": "drafted", "source": source, "act": "draft"})
    draft = policy_for(people.team, "drafted")
    assert "only a draft" in text(client.get("/policies"))
    assert "deny_mine" in text(client.get("/policies/new", {"from": draft.ref}))


def test_a_policy_says_when_and_why_its_versions_became_active(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    client.post(f"/policies/{policy.ref}/1/activate", {"note": "It was too strict"})
    html = text(client.get(f"/policies/{policy.ref}"))
    activated = html[html.index("<h2>Activated</h2>") :]
    assert activated.index("Version 1") < activated.index("Version 2")
    assert "operator@example.org" in activated
    assert "It was too strict" in activated
    assert f"/audit?subject={policy.ref}" in activated


def test_a_draft_that_waits_is_seen_from_the_list_and_from_the_active_version(
    people: People, policy: Policy
) -> None:
    client = browser_for(people.operator)
    draft = {"source": OPEN_POLICY, "act": "draft", "note": "Looser"}
    client.post(f"/policies/{policy.ref}/new", draft)
    assert "3 saved since" in text(client.get("/policies"))
    html = text(client.get(f"/policies/{policy.ref}"))
    assert "Version 3 of operator@example.org is saved and not active: Looser" in html


def test_a_text_is_asked_about_a_command_while_it_is_written(people: People) -> None:
    client = browser_for(people.operator)
    sent = {"source": OPEN_POLICY, "command": "ls | xargs rm"}
    html = text(client.post("/policies/check", sent))
    asked = html[html.index("check-asked") : html.index("check-rules")]
    assert "Nothing is deleted here." in asked
    assert "denied · deny_rm" in asked
    # Without scripts it comes with the page, and what was asked stays.
    html = text(client.post("/policies/new", sent | {"act": "check"}))
    assert "denied · deny_rm" in html
    assert 'value="ls | xargs rm"' in html
    assert "denied" not in text(client.post("/policies/check", {**sent, "command": " "}))
    broken = {"source": BROKEN, "command": "ls"}
    assert "check-asked" not in text(client.post("/policies/check", broken))


def test_enter_in_a_line_of_the_editor_saves_nothing(people: People) -> None:
    html = text(browser_for(people.operator).get("/policies/new"))
    form = html[html.index('<form method="post" class="writing"') :]
    assert re.search(r'<button type="submit"[^>]*>', form).group().count('value="check"') == 1  # type: ignore[union-attr]  # there is one


def test_whoever_activates_is_told_what_becomes_looser(people: People, policy: Policy) -> None:
    client = browser_for(people.operator)
    test = "tests:\n  - {request: {capability: secret.use}, expect: allow}\n"
    client.post(f"/policies/{policy.ref}/new", {"source": OPEN_POLICY + test, "act": "draft"})
    html = text(client.get(f"/policies/{policy.ref}/3"))
    assert "1 known request would be decided less strictly" in html
    assert "less strictly" not in text(client.get(f"/policies/{policy.ref}/2"))
