"""The demo agent: what a newcomer sees within a minute, through the public API alone."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from omniweb.accounts.models import ApiToken
from omniweb.management import stand_ins
from omniweb.web.demo import POLICY, demo_prepare
from sandboxes.models import Profile
from sandboxes.providers import registry
from sandboxes.providers.registry import provider_spec
from tests.people import People
from tests.server import ADMIN, ROOT, Server
from tests.standins import place

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


def decide_both(browser: httpx.Client, *, errand: str) -> None:
    """Wait for both requests; approve the release, and answer the errand like this."""
    two = until(lambda: found if len(found := waiting(browser)) == 2 else None)
    for reference in two:
        card = browser.get(f"/inbox/{reference}?part=card", headers={"HX-Request": "true"}).text
        token = re.search(r'name="review_token" value="(\w+)"', card)
        scope = re.search(r'name="scope" value="(\w+)"', card)
        assert token
        press(
            browser,
            f"/inbox/{reference}/decide",
            f"/inbox/{reference}",
            verdict="approve" if "release.sh" in card else errand,
            review_token=token[1],
            scope=scope[1] if scope else "once",
            reason="No channel today",
        )


def test_the_button_brings_two_requests_and_both_decisions_reach_the_agent(server: Server) -> None:
    browser = server.browser(ADMIN)
    assert "on this machine" in browser.get("/").text
    answer = press(browser, "/demo", "/")
    assert answer.url.path == "/inbox"
    assert "The demo agent is on its way" in answer.text

    decide_both(browser, errand="reject")

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


END_SECONDS = 60


@contextmanager
def demo(variables: dict[str, str], provider: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the demo on a stand-in; yield it with the link that it prints; end it as Ctrl-C does."""
    command = [sys.executable, "manage.py", "demo", "--provider", provider]
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            link = next((one.split()[-1] for one in process.stdout if "Sign in as" in one), "")
            assert link, "no link was printed"
            yield process, link
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@pytest.mark.standin
@pytest.mark.parametrize("provider", ["modal", "vercel"])
def test_a_hosted_provider_is_shown_without_an_account_and_leaves_nothing(
    server_new: Callable[..., Server], tmp_path: Path, provider: str
) -> None:
    label = provider_spec(provider).label
    here = tmp_path / "temporary"
    here.mkdir()
    variables = server_new(settings={"TMPDIR": str(here)}).variables
    with demo(variables, provider) as (process, link):
        assert process.stdout
        assert f"This is not {label}: a stand-in" in process.stdout.readline()
        url, path = link.split("/sign-in")[0], f"/sign-in{link.split('/sign-in')[1]}"
        with httpx.Client(base_url=url, timeout=60, follow_redirects=True) as browser:
            press(browser, path, path)
            decide_both(browser, errand="approve")
            told = []
            for line in process.stdout:
                told.append(line)
                if line.startswith("The demo"):
                    break
            assert told.count("ended: succeeded\n") == 2, told
            assert f"demo-agent runs on {provider}\n" in told
            assert provider in browser.get("/runs").text
        assert list(here.iterdir())
        process.send_signal(signal.SIGINT)
        process.wait(END_SECONDS)
        assert f"the stand-in for {label} and all they had are gone" in process.stdout.read()
    assert process.returncode == 0
    assert list(here.iterdir()) == []


def test_a_missing_sdk_is_said_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"pip install 'omniweb\[modal\]'"):
        call_command("demo", "--provider", "modal")


def test_without_the_stand_ins_a_checkout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "STAND_INS", "tests_that_are_not_there")
    with pytest.raises(CommandError, match="only in a checkout of OmniWeb's source"):
        call_command("demo", "--provider", "modal")


def test_where_no_sandbox_of_a_stand_in_can_be_made_the_packages_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, "missing", lambda: "there is no bwrap")
    with pytest.raises(CommandError, match=r"there is no bwrap; .*apt install bubblewrap"):
        call_command("demo", "--provider", "vercel")


def test_a_provider_of_ones_own_account_is_an_environment_of_its_own(people: People) -> None:
    with demo_prepare(actor=people.operator, provider="vercel") as first:
        assert (first.environment.name, first.environment.provider) == ("vercel", "vercel")
        assert "network_policy" in first.errand.manifest
    with demo_prepare(actor=people.operator, provider="vercel") as second:
        assert second.environment == first.environment


def test_the_command_says_what_to_do_when_no_server_answers(
    server_new: Callable[..., Server],
) -> None:
    with pytest.raises(AssertionError, match=r"Nothing answers at .*; start it with: make serve"):
        server_new().manage("demo")
