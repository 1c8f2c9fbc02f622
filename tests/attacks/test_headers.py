"""What every kind of answer tells the browser, and what no text can add to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path
from pytest_django.fixtures import Settings

from omniweb.accounts.services import link_create
from omniweb.urls import urlpatterns as ours
from tests.attacks.pages import PUBLIC, SIGNED_IN, owned_by
from tests.people import People, bearer, browser_for
from tests.server import Server

SAME = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
LINE = "evil\r\nSet-Cookie: evil=1\r\n\r\n<script>"


def broken_view(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("on purpose")


urlpatterns = [*ours, path("broken", broken_view)]


@pytest.fixture
def owned(people: People) -> dict[str, Any]:
    return owned_by(people)


def assert_guarded(answer: Any) -> None:
    """Look at the headers that every answer has."""
    for name, value in SAME.items():
        assert answer.headers[name] == value, name
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "unsafe" not in policy
    control = answer.headers["Cache-Control"]
    assert "no-store" in control, control
    assert "public" not in control
    assert "Server" not in answer.headers


def test_every_page_is_guarded_and_kept_by_nobody(people: People, owned: dict[str, Any]) -> None:
    client = browser_for(people.admin)
    for page in SIGNED_IN:
        for method in ("GET", "POST", "PUT"):
            assert_guarded(client.generic(method, page.url(owned)))
        assert_guarded(Client().get(page.url(owned)))
    for url, _ in PUBLIC.values():
        assert_guarded(Client().get(url))


def test_every_answer_of_the_apis_is_guarded(people: People, owned: dict[str, Any]) -> None:
    agent, person = bearer(people.agent), bearer(people.admin)
    for url, headers in (
        ("/api/v1/me", agent),
        ("/api/v1/runs", person),
        (f"/api/v1/runs/{owned['run']}/trajectory", person),
        (f"/api/v1/trajectories/{owned['trajectory']}/blobs/{owned['digest']}", person),
        ("/api/v1/me", {}),
        ("/api/v1/nothing", {}),
        ("/api/v1/docs", {}),
        ("/api/v1/openapi.json", {}),
        ("/sandbox/v1/openapi.json", {}),
        ("/sandbox/v1/nothing", {}),
    ):
        assert_guarded(Client().get(url, headers=headers))


def test_every_error_page_is_guarded(people: People) -> None:
    client = Client(raise_request_exception=False)
    assert_guarded(client.get("/nothing-here"))
    assert_guarded(Client(enforce_csrf_checks=True).post("/sign-in"))
    assert_guarded(browser_for(people.viewer).get("/people"))
    with override_settings(ROOT_URLCONF=__name__):
        answer = client.get("/broken")
    assert answer.status_code == 500
    assert "on purpose" not in answer.content.decode()
    assert_guarded(answer)


def test_what_comes_from_the_server_itself_is_guarded(server: Server) -> None:
    for url in ("/static/css/tokens.css", "/nothing", "/sign-in", "/health/live"):
        answer = httpx.get(server.url + url)
        assert answer.headers["X-Content-Type-Options"] == "nosniff", url
        assert "server" not in answer.headers
        assert "x-powered-by" not in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil", "[::", ""]
)
def test_another_name_for_us_is_refused(server: Server, host: str) -> None:
    answer = server.raw(
        f"GET /sign-in HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"evil" not in answer.partition(b"\r\n\r\n")[0]


# Downloads


def test_what_agents_made_is_a_download_that_no_browser_reads(
    people: People, owned: dict[str, Any]
) -> None:
    browser, token = browser_for(people.admin), bearer(people.admin)
    blob = f"trajectories/{owned['trajectory']}/blobs/{owned['digest']}"
    page = browser.get(f"/{blob}")
    assert page["Content-Type"] == "text/plain; charset=utf-8"
    assert page["Content-Disposition"].startswith("attachment; filename=")
    for answer in (
        Client().get(f"/api/v1/{blob}", headers=token),
        Client().get(f"/api/v1/executions/{execution(token)}/stdout", headers=token),
    ):
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"] == "attachment"
    whole = browser.get(f"/runs/{owned['run']}/trajectory.json")
    assert whole["Content-Type"] == "application/json"
    assert whole["Content-Disposition"].startswith("attachment; filename=")
    step = browser.get(f"/trajectories/{owned['trajectory']}/steps/1.json")
    assert step["Content-Type"] == "application/json"


def execution(token: dict[str, str]) -> str:
    rows = Client().get("/api/v1/executions", headers=token).json()["items"]
    return next(str(row["id"]) for row in rows if row["stdout_bytes"])


# Cookies


def set_cookies(people: People) -> Iterator[SimpleCookie]:
    assert people.viewer.user is not None
    client = Client()
    client.get("/sign-in")
    yield client.cookies
    client.post(f"/sign-in/link/{link_create(user=people.viewer.user)}")
    yield client.cookies


@pytest.mark.parametrize("https", [False, True])
def test_cookies_are_read_by_no_script_and_sent_by_no_other_site(
    people: People, settings: Settings, https: bool
) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = https
    names = set()
    for cookies in set_cookies(people):
        for name, cookie in cookies.items():
            names.add(name)
            assert cookie["httponly"], name
            assert cookie["samesite"] == "Lax", name
            assert bool(cookie["secure"]) is https, name
            assert not cookie["domain"]
    assert names >= {"omniweb_session", "omniweb_csrf"}


def test_with_https_everything_is_behind_it(server_new: Callable[..., Server]) -> None:
    server = server_new(
        settings={"OMNIWEB_HTTPS": "true", "OMNIWEB_PUBLIC_URL": "https://localhost"}
    )
    server.start()
    plain = httpx.get(f"{server.url}/sign-in")
    assert (plain.status_code, plain.headers["location"][:8]) == (301, "https://")
    # As the proxy in front sends it.
    behind = httpx.get(f"{server.url}/sign-in", headers={"X-Forwarded-Proto": "https"})
    assert behind.status_code == 200
    assert "max-age=31536000" in behind.headers["strict-transport-security"]
    cookies = behind.headers.get_list("set-cookie")
    assert cookies
    assert all("Secure" in cookie and "HttpOnly" in cookie for cookie in cookies)


def test_the_settings_make_cookies_secure_with_https() -> None:
    assert settings.SESSION_COOKIE_SECURE is settings.HTTPS
    assert settings.CSRF_COOKIE_SECURE is settings.HTTPS
    assert settings.SESSION_COOKIE_HTTPONLY
    assert settings.SESSION_COOKIE_SAMESITE == "Lax"


# Lines in what becomes a header or is near one


def test_no_text_makes_a_header(server: Server) -> None:
    server.policy("free-lines", "name: free-lines\nmode: permissive\nrules: {}\n")
    with server.client(server.agent_made("line-bot", "free-lines")) as agent:
        run = agent.post("/api/v1/runs", json={"title": LINE, "group": LINE})
        assert run.status_code == 201
        reference = run.json()["id"]
        key = {"Idempotency-Key": "a%0d%0aSet-Cookie:%20evil=1"}
        answers = [
            run,
            agent.get(f"/api/v1/runs/{reference}"),
            agent.get(f"/api/v1/runs/{reference}/trajectory"),
            agent.get("/api/v1/runs", params={"group": LINE, "cursor": LINE}),
            agent.get(f"/api/v1/runs/{reference}/files", params={"path": LINE}),
            agent.get("/api/v1/runs/a%0d%0aSet-Cookie:%20evil=1"),
            agent.post("/api/v1/runs", json={}, headers=key),
            agent.post("/api/v1/runs", json={}, headers=key),
        ]
    browser = server.browser("approver@example.org")
    for url in ("/runs", f"/runs/{reference}", f"/runs/{reference}/trajectory.json"):
        answers.append(browser.get(url))
    for url in ("/a%0d%0aSet-Cookie:%20evil=1", "/sign-in?next=%0d%0aSet-Cookie:%20evil=1"):
        answers.append(browser.get(url, follow_redirects=False))
    browser.close()
    for answer in answers:
        assert "evil" not in str(answer.headers.get_list("set-cookie"))
        assert not any("\n" in value for value in answer.headers.values())
        assert answer.status_code < 500
    pages = [answer for answer in answers if answer.headers["content-type"].startswith("text/html")]
    assert pages
    assert not any("<script>\n" in page.text or "\n<script></" in page.text for page in pages)


@pytest.mark.parametrize("name", ["X-Omniweb-Task", "X-Omniweb-Group", "Idempotency-Key", "Prefer"])
@pytest.mark.parametrize(
    "value", [b"a\nSet-Cookie: evil=1", b"a\0b", b"a\rb", b"\xff\xfe", b"\x1b[31m"]
)
def test_a_header_that_is_none_breaks_nothing(server: Server, name: str, value: bytes) -> None:
    token = server.member_token("viewer")
    body = b'{"manifest": {}}'
    request = (
        b"POST /sandbox/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        b"Authorization: Bearer "
        + token.encode()
        + b"\r\nContent-Type: application/json\r\n"
        + name.encode()
        + b": "
        + value
        + f"\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    answer = server.raw(request)
    assert answer[:10] == b"HTTP/1.1 4"
    assert b"evil" not in answer.partition(b"\r\n\r\n")[0].lower()
