"""Signing in: no session is handed over, no address leads away, no guess is free."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from pytest_django.fixtures import Settings

from omniweb.accounts.models import User
from omniweb.accounts.services import link_create
from tests.attacks.pages import owned_by
from tests.people import People, browser_for

PASSWORD = "a long enough pass-phrase"
COOKIE = "omniweb_session"
AWAY = (
    "https://evil.example",
    "//evil.example",
    "///evil.example",
    "\\\\evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "http:evil.example",
    "https:/evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "http://testserver@evil.example/",
    "\x00//evil.example",
    " //evil.example",
)


@pytest.fixture
def user(people: People, settings: Settings) -> User:
    # The real one is slow on purpose, and these tests sign in often.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    user = people.approver.user
    assert user is not None
    user.set_password(PASSWORD)
    user.save(update_fields=["password"])
    return user


def sign_in(client: Client, user: User, **fields: str) -> Any:
    return client.post("/sign-in", {"login": user.email, "password": PASSWORD, **fields})


def by_link(client: Client, user: User) -> Any:
    return client.post(f"/sign-in/link/{link_create(user=user)}")


@pytest.mark.parametrize("way", [sign_in, by_link])
def test_the_session_of_before_is_not_the_one_that_is_signed_in(user: User, way: Any) -> None:
    client = Client()
    # The attacker's own session, put into the victim's browser.
    known = browser_for_outsider(user)
    client.cookies[COOKIE] = known
    assert way(client, user).status_code == 302
    assert client.cookies[COOKIE].value not in ("", known)
    assert client.get("/inbox").status_code == 200
    old = Client()
    old.cookies[COOKIE] = known
    assert old.get("/inbox").status_code == 302


def browser_for_outsider(user: User) -> str:
    """Return the key of a session that knows something, but not who it is of."""
    client = Client()
    session = client.session
    session["known"] = "to the attacker"
    session.save()
    return str(session.session_key)


def test_a_made_up_session_key_is_not_taken_over(user: User) -> None:
    client = Client()
    client.cookies[COOKIE] = "a" * 32
    sign_in(client, user)
    assert client.cookies[COOKIE].value != "a" * 32


def test_after_signing_out_the_old_session_opens_nothing(user: User) -> None:
    client = Client()
    sign_in(client, user)
    old = client.cookies[COOKIE].value
    assert client.get("/account").status_code == 200
    client.post("/sign-out")
    again = Client()
    again.cookies[COOKIE] = old
    assert again.get("/account").status_code == 302


def test_signing_out_takes_a_post(user: User) -> None:
    client = Client()
    sign_in(client, user)
    client.get("/sign-out")
    assert client.get("/account").status_code == 200


def test_a_new_password_ends_the_other_sessions(user: User) -> None:
    here, elsewhere = Client(), Client()
    sign_in(here, user)
    sign_in(elsewhere, user)
    new = "another long pass-phrase"
    form = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert here.post("/account/password/change/", form).status_code == 302
    assert here.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 302


def test_a_person_who_was_switched_off_is_out_at_once(user: User) -> None:
    client = Client()
    sign_in(client, user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert client.get("/account").status_code == 302
    assert Client().post(f"/sign-in/link/{link_create(user=user)}").status_code == 401


def test_a_link_signs_in_once_and_looking_does_not_spend_it(user: User) -> None:
    url = f"/sign-in/link/{link_create(user=user)}"
    assert Client().get(url).status_code == 200
    assert Client().post(url).status_code == 302
    assert Client().post(url).status_code == 401


def test_no_address_to_come_back_to_leads_away(user: User) -> None:
    for away in AWAY:
        client = Client()
        assert stays(sign_in(client, user, next=away)), away
        # Already signed in, and at the other doors that take `next`.
        assert stays(client.get("/sign-in", {"next": away})), away
        assert stays(client.post("/sign-out", {"next": away})), away
        page = Client().get("/sign-in", {"next": away}).content.decode()
        assert f'href="{away}"' not in page


def test_no_remark_leads_away(people: People) -> None:
    owned = owned_by(people)
    url = f"/trajectories/{owned['trajectory']}/annotations"
    client = browser_for(people.auditor)
    for away in AWAY:
        answer = client.post(url, {"text": "looked at", "next": away})
        assert answer.status_code in (302, 422), away
        assert answer.status_code == 422 or stays(answer), away


def stays(answer: Any) -> bool:
    """Whether a redirect leads to this installation, as browsers read addresses."""
    if answer.status_code != 302:
        return bool(answer.status_code == 200)
    target = answer["Location"].replace("\\", "/")
    return target.startswith("/") and not target.startswith("//") and "\t" not in target


def test_guessing_passwords_is_slowed_down(user: User) -> None:
    wrong = {"login": user.email, "password": "not the pass-phrase"}
    statuses = [Client().post("/sign-in", wrong).status_code for _ in range(15)]
    assert statuses[0] == 200
    right = sign_in(Client(), user)
    assert right.status_code != 302, statuses
    assert "Too many" in right.content.decode() or right.status_code == 429


def test_nobody_makes_an_account_of_their_own(user: User) -> None:
    before = User.objects.count()
    form = {"email": "new@example.org", "password1": PASSWORD, "password2": PASSWORD}
    answer = Client().post("/account/signup/", form)
    assert "Nobody signs up here by themselves" in answer.content.decode()
    assert User.objects.count() == before


def test_nobody_changes_the_address_records_name_them_by(user: User) -> None:
    client = Client()
    sign_in(client, user)
    for form in (
        {"email": "owner@example.org", "action_add": ""},
        {"email": "owner@example.org", "action_primary": ""},
    ):
        answer = client.post("/account/email/", form)
        assert (answer.status_code, answer["Location"]) == (302, "/account")
    assert not mail.outbox
    user.refresh_from_db()
    assert user.email == "approver@example.org"


@pytest.mark.parametrize(
    "path",
    [
        "/account/confirm-email/",
        "/account/confirm-email/MQ:1abc:def/",
        "/account/login/",
        "/account/logout/",
        "/account/login/code/confirm/",
        "/account/reauthenticate/code/",
        "/account/phone/change/",
        "/account/3rdparty/",
        "/admin/",
    ],
)
def test_doors_that_nobody_needs_are_not_there(user: User, path: str) -> None:
    client = Client()
    sign_in(client, user)
    assert client.get(path).status_code == 404


def test_a_forgotten_password_tells_nobody_who_is_here_and_mails_no_stranger(user: User) -> None:
    url = "/account/password/reset/"
    known = Client().post(url, {"email": user.email})
    unknown = Client().post(url, {"email": "stranger@example.org"})
    assert (known.status_code, known["Location"]) == (unknown.status_code, unknown["Location"])
    assert [message.to for message in mail.outbox] == [[user.email]]


def test_a_refused_sign_in_tells_nobody_who_is_here(user: User) -> None:
    wrong = [
        Client().post("/sign-in", {"login": login, "password": "not the pass-phrase"})
        for login in (user.email, "stranger@example.org")
    ]
    errors = [answer.context["form"].errors.as_text() for answer in wrong]
    assert errors[0] == errors[1]
