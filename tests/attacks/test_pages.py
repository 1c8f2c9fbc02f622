"""Every page for every role, signed out, of another team, with every method, and without CSRF token."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import resolve

from approvals.forms import ActivateForm, DecideForm, PolicyForm, VersionForm
from approvals.forms_history import ExplainForm, ShadowForm, TryForm
from omniweb.accounts.permissions import ROLE_ACTIONS
from omniweb.web.people import InviteForm
from sandboxes.forms.agents import TokenForm
from sandboxes.forms.environments import EnvironmentForm
from tests.attacks.pages import PUBLIC, SIGNED_IN, Page, names, owned_by
from tests.people import ROLES, People, bearer, browser_for

METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE")
# How views read what is asked and posted.
QUESTIONS = re.compile(r'(?:GET|POST)(?:\.get\(|\[)"(\w+)"')
FORMS = (
    ActivateForm,
    DecideForm,
    PolicyForm,
    VersionForm,
    TryForm,
    ExplainForm,
    ShadowForm,
    EnvironmentForm,
    InviteForm,
    TokenForm,
)
FIELDS = {name for form in FORMS for name in form.base_fields}
# Never the answer to someone who may use a page, whatever they send.
REFUSALS = frozenset({401, 403, 404, 405})

# What databases, int() and paths have choked on.
HOSTILE = {
    "null": "\0",
    "number": "9" * 30,
    "digits": "9" * 5000,
    "other digits": "٣²",
    "half": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "quote": "'\"><script>alert(1)</script>",
    "path": "../../../etc/passwd",
    "line": "a\r\nSet-Cookie: a=b",
    "format": "%s%n{0}{{7*7}}{% debug %}",
}


@pytest.fixture
def owned(people: People) -> dict[str, Any]:
    return owned_by(people)


def test_every_page_is_in_the_table() -> None:
    listed = [page.name for page in SIGNED_IN] + list(PUBLIC)
    assert sorted(names()) == sorted(listed)


@pytest.mark.parametrize("name", ROLES)
def test_a_page_is_for_those_who_may(people: People, owned: dict[str, Any], name: str) -> None:
    client, actions = browser_for(getattr(people, name)), ROLE_ACTIONS[ROLES[name]]
    wrong = []
    for page in SIGNED_IN:
        for method in ("GET", "POST"):
            needed = page.allows(method)
            answer = client.generic(method, page.url(owned))
            if needed is None:
                is_right = answer.status_code == 405
            elif needed not in actions:
                is_right = answer.status_code == 403
            else:
                is_right = answer.status_code not in REFUSALS and answer.status_code < 500
            if not is_right:
                wrong.append(f"{method} {page.url(owned)}: {answer.status_code}")
    assert not wrong


def test_whoever_is_signed_out_signs_in_first(owned: dict[str, Any]) -> None:
    wrong = []
    for page in SIGNED_IN:
        for method in ("GET", "POST"):
            url = page.url(owned)
            answer = Client().generic(method, url)
            expected = 302 if page.allows(method) else 405
            if answer.status_code != expected:
                wrong.append(f"{method} {url}: {answer.status_code}")
            if expected == 302:
                assert answer["Location"] == f"/sign-in?{urlencode({'next': url}, safe='/')}"
    assert not wrong


def test_a_public_page_answers_as_listed(db: None) -> None:
    cache.clear()  # counts what is tried without signing in
    wrong = []
    for url, statuses in PUBLIC.values():
        for method in METHODS:
            answer = Client().generic(method, url)
            if answer.status_code != statuses.get(method, 405):
                wrong.append(f"{method} {url}: {answer.status_code}")
    assert not wrong


def test_no_page_takes_a_method_it_does_not_know(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.admin)
    wrong = []
    for page in SIGNED_IN:
        for method in METHODS:
            if page.allows(method):
                continue
            answer = client.generic(method, page.url(owned))
            known = [each for each in ("GET", "POST") if page.allows(each)]
            if answer.status_code != 405 or answer["Allow"] != ", ".join(known):
                wrong.append(f"{method} {page.url(owned)}: {answer.status_code}")
    assert not wrong


def test_what_another_team_owns_is_not_there(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.outsider)
    wrong = []
    for page in SIGNED_IN:
        for method in ("GET", "POST"):
            if not page.on or not page.allows(method):
                continue
            answer = client.generic(method, page.url(owned))
            if answer.status_code != 404:
                wrong.append(f"{method} {page.url(owned)}: {answer.status_code}")
    assert not wrong


def test_no_page_shows_anything_of_another_team(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.outsider)
    for page in SIGNED_IN:
        if page.on or not page.get:
            continue
        text = client.get(page.url(owned)).content.decode()
        for reference in owned.values():
            assert reference not in text, page.name
        assert people.team.name not in text, page.name


def test_a_post_without_its_token_changes_nothing(people: People, owned: dict[str, Any]) -> None:
    client = Client(enforce_csrf_checks=True)
    assert people.admin.user is not None
    client.force_login(people.admin.user)
    urls = [page.url(owned) for page in SIGNED_IN] + [url for url, _ in PUBLIC.values()]
    wrong = [url for url in urls if client.post(url).status_code != 403]
    assert not wrong


@pytest.mark.parametrize("name", ["agent", "admin"])
def test_a_token_opens_no_page(people: People, owned: dict[str, Any], name: str) -> None:
    headers = bearer(getattr(people, name))
    wrong = []
    for page in SIGNED_IN:
        for method in ("GET", "POST"):
            answer = Client().generic(method, page.url(owned), headers=headers)
            if page.allows(method) and answer.status_code != 302:
                wrong.append(f"{method} {page.url(owned)}: {answer.status_code}")
    assert not wrong


def test_a_session_opens_no_api(people: People) -> None:
    client = browser_for(people.admin)
    for path in ("/api/v1/me", "/api/v1/runs", "/sandbox/v1/sessions/run_0/files?path=a"):
        assert client.get(path).status_code == 401


def test_a_hostile_address_finds_nothing_and_fails_nothing(
    people: People, owned: dict[str, Any]
) -> None:
    client = browser_for(people.admin)
    client.raise_request_exception = False
    wrong = []
    for page in SIGNED_IN:
        for method in ("GET", "POST"):
            if not page.on or not page.allows(method):
                continue
            for hostile in HOSTILE.values():
                path = page.url(owned).replace(owned[page.on], quote(hostile, safe=""))
                answer = client.generic(method, path)
                if answer.status_code not in (404, 405):
                    wrong.append(f"{method} {path[:200]}: {answer.status_code}")
    assert not wrong


def asked(page: Page, url: str) -> set[str]:
    """Return the names that the page's module reads of an address or a form."""
    module = sys.modules[resolve(url.partition("?")[0]).func.__module__]
    return set(QUESTIONS.findall(inspect.getsource(module))) | set(getattr(module, "FILTERS", ()))


def hostile_questions(known: set[str], also: set[str]) -> Iterator[dict[str, str]]:
    """Yield all names with each hostile value, and each known one alone with the worst."""
    for hostile in HOSTILE.values() if known | also else ():
        yield dict.fromkeys(known | also, hostile)
    for name in sorted(known):
        for hostile in ("null", "digits"):
            yield {name: HOSTILE[hostile]}


def test_a_hostile_question_fails_no_page(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.admin)
    client.raise_request_exception = False
    wrong = []
    for page in SIGNED_IN:
        if not page.get or page.name.endswith("_here"):
            continue
        path = page.url(owned).partition("?")[0]
        for question in hostile_questions(asked(page, path), set()):
            answer = client.get(path, question)
            if answer.status_code >= 500:
                wrong.append(f"{path} {str(question)[:80]}: {answer.status_code}")
    assert not wrong


def test_a_hostile_form_fails_no_page(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.admin)
    client.raise_request_exception = False
    wrong = []
    for page in SIGNED_IN:
        if not page.post:
            continue
        url = page.url(owned)
        for form in hostile_questions(asked(page, url), FIELDS):
            answer = client.post(url, form)
            if answer.status_code >= 500:
                wrong.append(f"{page.name} {str(form)[:80]}: {answer.status_code}")
    assert not wrong


def test_nothing_hostile_fails_a_public_page(people: People) -> None:
    wrong = []
    for client in (Client(), browser_for(people.viewer)):
        client.raise_request_exception = False
        for url, _ in PUBLIC.values():
            for hostile in HOSTILE.values():
                names = ("next", "login", "email", "password", "password1", "oldpassword")
                answers = [
                    client.get(url, {"next": hostile}),
                    client.post(url, dict.fromkeys(names, hostile)),
                    client.get(url.replace("unknown", quote(hostile, safe=""))),
                ]
                if any(answer.status_code >= 500 for answer in answers):
                    wrong.append(f"{url} {hostile[:20]!r}")
    assert not wrong
