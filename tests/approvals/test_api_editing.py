"""Writing policies over the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from approvals.models import Policy
from approvals.services.policies import policy_create
from omniweb.accounts.permissions import Actor
from omniweb.core.models import AuditEntry
from tests.factories import OPEN_POLICY
from tests.people import People, bearer

FAILING = f"{OPEN_POLICY}tests:\n  - {{request: {{capability: secret.use}}, expect: deny}}\n"


class Caller:
    """Someone who uses the API."""

    def __init__(self, actor: Actor) -> None:
        self.headers = bearer(actor)
        self.client = Client()

    def __call__(self, method: str, path: str, **body: Any) -> Any:
        """Send a request; return the answer."""
        return self.client.generic(
            method,
            f"/api/v1{path}",
            data=_json(body) if body else b"",
            content_type="application/json",
            headers=self.headers,
        )


def _json(body: dict[str, Any]) -> bytes:

    return json.dumps(body).encode()


@pytest.fixture
def operator(people: People) -> Caller:
    return Caller(people.operator)


@pytest.fixture
def policy(people: People) -> Policy:
    """A policy with one version, which is active."""
    return policy_create(actor=people.operator, name="ours", source=OPEN_POLICY)


def test_a_text_is_checked_without_being_saved(people: People) -> None:
    answer = Caller(people.viewer)("POST", "/policies/check", source=FAILING).json()
    assert answer["may_be_saved"] is True
    assert answer["may_activate"] is False
    (test,) = answer["tests"]
    assert (test["expected"], test["decided"], test["line"]) == ("deny", "allow", 12)
    assert [rule["rule_id"] for rule in answer["rules"]] == ["deny_rm", "ask_git_push"]
    assert answer["findings"] == []
    assert not Policy.objects.filter(name="open").exists()


def test_a_check_tells_problems_and_findings_with_their_lines(operator: Caller) -> None:
    broken = operator("POST", "/policies/check", source="name: a\nmode: lax\n").json()
    (problem,) = broken["problems"]
    assert (problem["line"], problem["path"]) == (2, "mode")
    assert broken["rules"] == []
    lax = "name: a\nrules:\n  allow:\n    - {rule_id: all, capability: '*'}\n"
    (finding,) = operator("POST", "/policies/check", source=lax).json()["findings"]
    assert (finding["kind"], finding["level"], finding["line"]) == ("too_broad", "warning", 4)


def test_a_saved_version_can_be_checked(operator: Caller, policy: Policy) -> None:
    answer = operator("GET", f"/policies/{policy.ref}/versions/1/check").json()
    assert answer["may_activate"] is True


def test_a_failing_version_is_saved_as_a_draft_and_never_activated(
    operator: Caller, policy: Policy
) -> None:
    path = f"/policies/{policy.ref}/versions"
    refused = operator("POST", path, source=FAILING)
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["path"] == "tests[0]"
    draft = operator("POST", path, source=FAILING, activate=False)
    assert (draft.status_code, draft.json()["is_active"]) == (201, False)
    assert operator("POST", f"{path}/2/activate").status_code == 422


def test_activating_takes_a_note_or_none(operator: Caller, policy: Policy) -> None:
    path = f"/policies/{policy.ref}/versions"
    operator("POST", path, source=OPEN_POLICY, activate=False)
    answer = operator("POST", f"{path}/2/activate", note="Tried for a week")
    assert answer.json()["active_version"] == 2
    entry = AuditEntry.objects.filter(act="policy.activate").latest("id")
    assert entry.detail["note"] == "Tried for a week"
    assert operator("POST", f"{path}/1/activate").json()["active_version"] == 1


def test_whoever_is_overtaken_is_told_what_by(operator: Caller, policy: Policy) -> None:
    path = f"/policies/{policy.ref}/versions"
    assert operator("POST", path, source=OPEN_POLICY, base=1).status_code == 201
    answer = operator("POST", path, source=OPEN_POLICY, base=1)
    assert (answer.status_code, answer.json()["code"]) == (409, "overtaken")
    assert answer.json()["latest"] == 2


def test_a_policy_can_be_made_as_a_draft_with_the_name_in_its_document(operator: Caller) -> None:
    answer = operator("POST", "/policies", source=FAILING, activate=False).json()
    assert (answer["name"], answer["active_version"]) == ("open", None)


def test_versions_are_compared(operator: Caller, policy: Policy) -> None:
    stricter = FAILING.replace("permissive", "strict")
    operator("POST", f"/policies/{policy.ref}/versions", source=stricter, activate=False)
    answer = operator("GET", f"/policies/{policy.ref}/diff?from=1&to=2").json()
    assert [part["name"] for part in answer["whole"]] == ["mode"]
    (flip,) = answer["flips"]
    assert (flip["name"], flip["before"], flip["after"]) == ("secret.use", "allow", "deny")
    assert flip["loosened"] is False
    assert {"kind": "del", "before": 3, "after": None, "text": "mode: permissive"} in answer["text"]
    assert operator("GET", f"/policies/{policy.ref}/diff").json() == answer
    assert operator("GET", f"/policies/{policy.ref}/diff?to=9").status_code == 404


def test_a_policy_is_archived_and_restored(operator: Caller, policy: Policy) -> None:
    archived = operator("POST", f"/policies/{policy.ref}/archive").json()
    assert archived["archived_at"] is not None

    def names(query: str = "") -> set[str]:
        items = operator("GET", f"/policies?limit=200{query}").json()["items"]
        return {item["name"] for item in items}

    assert "ours" not in names()
    assert names("&archived=true") == {"ours"}
    refused = operator("POST", f"/policies/{policy.ref}/versions", source=OPEN_POLICY)
    assert refused.status_code == 409
    assert operator("POST", f"/policies/{policy.ref}/restore").json()["archived_at"] is None
    assert "ours" in names()


def test_no_author_activates_where_it_takes_a_second_person(
    people: People, operator: Caller, policy: Policy
) -> None:
    path = f"/policies/{policy.ref}"
    assert operator("PATCH", path, needs_second_person=True).json()["needs_second_person"] is True
    assert operator("POST", f"{path}/versions", source=OPEN_POLICY).status_code == 403
    operator("POST", f"{path}/versions", source=OPEN_POLICY, activate=False)
    assert operator("POST", f"{path}/versions/2/activate").status_code == 403
    admin = Caller(people.admin)
    assert admin("POST", f"{path}/versions/2/activate").json()["active_version"] == 2
    assert operator("PATCH", path, needs_second_person=False).status_code == 403
    assert admin("PATCH", path, needs_second_person=False).status_code == 200


def test_a_version_is_taken_away_and_brought_back(operator: Caller, policy: Policy) -> None:
    path = f"/policies/{policy.ref}/versions/1/export"
    source = operator("GET", f"{path}?as=json&for=omnicoreagent").json()["source"]
    assert json.loads(source)["name"] == "open"
    copy = operator("POST", "/policies", source=source)
    assert (copy.status_code, copy.json()["name"]) == (201, "open")
    assert operator("GET", f"{path}?as=xml").status_code == 422


def test_what_a_document_may_say_can_be_asked(people: People) -> None:
    keys = Caller(people.viewer)("GET", "/policies/vocabulary").json()["keys"]
    assert keys["mode"]["values"] == ["permissive", "interactive", "strict"]


def test_a_text_is_asked_what_it_would_decide(operator: Caller) -> None:
    asked = operator("POST", "/policies/check", source=OPEN_POLICY, command="git push").json()
    assert asked["decision"]["effect"] == "ask"
    request = {"capability": "secret.use"}
    asked = operator("POST", "/policies/check", source=OPEN_POLICY, request=request).json()
    assert asked["decision"]["effect"] == "allow"
    both = operator("POST", "/policies/check", source=OPEN_POLICY, request=request, command="ls")
    assert both.status_code == 422
    assert operator("POST", "/policies/check", source="[", command="ls").json()["decision"] is None
