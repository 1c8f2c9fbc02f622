"""The demo agent: what a newcomer sees within a minute, through the public API alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from omniweb.accounts.models import ApiToken
from omniweb.web.demo import POLICY, demo_prepare
from sandboxes.models import Profile
from tests.people import People
from tests.server import ADMIN, Server

SECONDS = 60


def until[R](look: Callable[[], R | None], seconds: float = SECONDS) -> R:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(0.1)
    pytest.fail("it did not happen in time")


def press(browser: httpx.Client, path: str, page: str, **sent: str) -> httpx.Response:
    """Send a form of a page, as a browser without scripts would."""
    html = browser.get(page).text
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', html)
    assert found, html
    headers = {"Origin": str(browser.base_url).rstrip("/"), "Referer": str(browser.base_url)}
    return browser.post(path, data={"csrfmiddlewaretoken": found[1], **sent}, headers=headers)


def test_its_policy_allows_asks_and_denies_what_the_page_promises() -> None:
    policy = compile_policy(parse_document(POLICY))

    def effect(script: str) -> str:
        command = ("sh", "-c", script)
        request = AuthorityRequest(
            capability="process.exec", command=command, execution_surface="sandbox"
        )
        return policy.evaluate(request).effect.value

    assert effect("uname -sr && id") == "allow"
    assert effect("git push origin main") == "ask"
    assert effect("pip install something") == "ask"
    assert effect("curl example.org") == "ask"
    assert effect("ls; rm -rf /") == "deny"


def test_a_second_demo_uses_policy_agent_and_environment_again(people: People) -> None:
    with demo_prepare(actor=people.operator) as first, demo_prepare(actor=people.admin) as second:
        assert first.agent == second.agent
        assert first.environment == second.environment
        assert first.secret != second.secret
        profile = Profile.objects.get(agent=first.agent)
        assert profile.policy.name == "demo"
    tokens = ApiToken.objects.filter(agent=first.agent)
    assert tokens.count() == 2
    assert tokens.filter(revoked_at__isnull=True).count() == 0


@pytest.fixture
def server(server_new: Callable[..., Server]) -> Server:
    """A server on a machine without the image, so that the demo runs on the machine itself."""
    one = server_new(settings={"OMNIWEB_DOCKER_IMAGE": "there.is.no/such-image:none"})
    return one.start()


def waiting(browser: httpx.Client) -> list[str]:
    html = browser.get("/inbox").text
    return sorted(set(re.findall(r'id="row-(req_\w+)"', html)))


def test_the_button_brings_two_requests_and_both_decisions_reach_the_agent(server: Server) -> None:
    browser = server.browser(ADMIN)
    assert "on this machine" in browser.get("/").text
    answer = press(browser, "/demo", "/")
    assert answer.url.path == "/inbox"
    assert "The demo agent is on its way" in answer.text

    two = until(lambda: found if len(found := waiting(browser)) == 2 else None)
    for reference in two:
        card = browser.get(f"/inbox/{reference}?part=card", headers={"HX-Request": "true"}).text
        token = re.search(r'name="review_token" value="(\w+)"', card)
        scope = re.search(r'name="scope" value="(\w+)"', card)
        assert token
        verdict = "approve" if "release.sh" in card else "reject"
        press(
            browser,
            f"/inbox/{reference}/decide",
            f"/inbox/{reference}",
            verdict=verdict,
            review_token=token[1],
            scope=scope[1] if scope else "once",
            reason="No channel today",
        )

    with server.client(server.admin_token) as admin:
        runs = until(lambda: _ended(admin))
        commands = admin.get("/api/v1/executions", params={"limit": 100}).json()["items"]
        refused = next(run for run in runs if run["title"] != "Release version 1.4.2")
        released = next(run for run in runs if run["title"] == "Release version 1.4.2")
    assert refused["state"] == "refused"
    assert refused["reason"] == f"Rejected by {ADMIN}: No channel today"
    assert released["state"] == "succeeded"
    states = [(command["state"], command["exit_code"]) for command in commands]
    assert states.count(("finished", 1)) == 1
    assert ("denied", None) in states
    assert ("rejected", None) in states
    assert states.count(("finished", 0)) == 3
    assert (server.data / "demo" / "release.log").read_text().endswith("published version 1.4.2\n")


def _ended(admin: httpx.Client) -> list[dict[str, Any]] | None:
    runs: list[dict[str, Any]] = admin.get("/api/v1/runs").json()["items"]
    return runs if all(run["ended_at"] for run in runs) else None


def test_the_command_says_what_to_do_when_no_server_answers(
    server_new: Callable[..., Server],
) -> None:
    with pytest.raises(AssertionError, match=r"Nothing answers at .*; start it with: make serve"):
        server_new().manage("demo")
