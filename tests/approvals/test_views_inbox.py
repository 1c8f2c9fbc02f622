"""The inbox in a browser: who sees what, and deciding from it."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from approvals.models import Request
from approvals.services.requests import requests_expire
from omniweb.core.clock import now
from sandboxes.models import Execution, Run
from sandboxes.services.executions import execution_cancel
from sandboxes.services.runs import run_open
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote, work
from tests.people import People, browser_for

HTMX = {"HX-Request": "true"}
TWO_VOTES = """
name: two
mode: permissive
rules:
  ask:
    - rule_id: ask_git
      capability: process.exec
      command: {program: git}
      constraints: {approvals: {count: 2}}
"""


@pytest.fixture
def run(people: People) -> Run:
    """A ready run of an agent that is asked about `git push`."""
    policy_use(people.agent, OPEN_POLICY)
    return run_ready(people.agent, people.approver)


def asked(people: People, run: Run, script: str = "git push origin main") -> Request:
    return request_of(ask(people.agent, run, script))


def page(client: Client, request: Request | None = None, **query: str) -> str:
    path = f"/inbox/{request.ref}" if request else "/inbox"
    answer = client.get(path, query)
    assert answer.status_code == 200
    return answer.content.decode()


def decide(
    client: Client, request: Request, verdict: str = "approve", *, htmx: bool = False, **more: str
) -> tuple[int, str, dict[str, str]]:
    sent = {"verdict": verdict, "review_token": request.review_token, "scope": "once"}
    answer = client.post(
        f"/inbox/{request.ref}/decide", sent | more, headers=HTMX if htmx else None
    )
    return answer.status_code, answer.content.decode(), dict(answer.headers)


def toast(headers: dict[str, str]) -> str:
    return str(json.loads(headers["HX-Trigger"])["toast"]["text"])


def test_an_empty_inbox_says_what_will_appear_there(people: People) -> None:
    html = page(browser_for(people.approver))
    assert "Nothing waits for you" in html
    assert "0 open" in html


def test_the_card_says_what_who_where_and_why(people: People, run: Run) -> None:
    html = page(browser_for(people.approver), asked(people, run))
    assert "fix-bot wants to run git" in html
    assert "flaky checkout test" in html
    assert "owner@example.org" in html
    assert "This machine, not isolated." in html
    assert "ask_git_push" in html
    assert "Publishing needs a person." in html
    assert "open, version 1" in html
    assert "has not asked for this before" in html


def test_the_queue_is_riskiest_first_then_oldest(people: People, run: Run) -> None:
    first, second = asked(people, run, "git push a"), asked(people, run, "git push b")
    Request.objects.filter(pk=first.pk).update(risk="low")
    html = page(browser_for(people.approver))
    assert html.index(f"row-{second.ref}") < html.index(f"row-{first.ref}")
    assert f'data-card="{second.ref}"' in html


def test_filters_are_links_with_counts_equal_to_the_database(people: People, run: Run) -> None:
    policy_use(people.agent, OPEN_POLICY.replace("ask:", ASK_NETWORK), name="network")
    asked(people, run)
    run_open(actor=people.agent, title="needs the network")
    client = browser_for(people.approver)
    html = re.sub(r"\s+", " ", page(client, kind="manifest"))
    words = re.findall(r"(All|Commands|Sandboxes) <span class=\"num\">(\d+)<", html)
    assert words == [("All", "2"), ("Commands", "1"), ("Sandboxes", "1")]
    assert html.count('<li class="row') == 1
    assert "turn the network on for its whole sandbox" in html
    assert 'data-count="2"' in client.get("/inbox/count").content.decode()


ASK_NETWORK = "ask:\n    - {rule_id: ask_network, capability: sandbox.network.configure}"


def test_a_sandbox_card_lists_everything_the_sandbox_would_get(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY.replace("ask:", ASK_NETWORK), name="network")
    run = run_open(actor=people.agent, title="needs the network")
    request = Request.objects.get(subject_id=run.id)
    html = page(browser_for(people.approver), request)
    assert "What its sandbox would get" in html
    assert "every host" in html
    assert "asks · ask_network" in html


def test_a_long_queue_comes_in_pages(people: People, run: Run) -> None:
    request = asked(people, run)
    fields = {
        field.attname: getattr(request, field.attname)
        for field in Request._meta.concrete_fields
        if not field.primary_key
    }
    Request.objects.bulk_create(Request(**fields) for _ in range(44))
    client = browser_for(people.approver)
    assert page(client).count('<li class="row') == 40
    second = page(client, page="2")
    assert second.count('<li class="row') == 5
    assert "45 open" in second


@pytest.mark.parametrize("name", ["viewer", "auditor", "operator"])
def test_who_may_not_decide_sees_why_beside_dead_buttons(
    people: People, run: Run, name: str
) -> None:
    request = asked(people, run)
    client = browser_for(getattr(people, name))
    html = page(client, request)
    assert "Deciding needs the role approver or admin" in html
    assert re.search(r'value="approve"[^>]*disabled', html)
    assert 'value="reject"' not in html
    status, _, _ = decide(client, request)
    assert status == 403
    request.refresh_from_db()
    assert request.state == "open"


def test_an_outsider_finds_nothing(people: People, run: Run) -> None:
    request = asked(people, run)
    client = browser_for(people.outsider)
    assert client.get(f"/inbox/{request.ref}").status_code == 404
    assert decide(client, request)[0] == 404
    assert "0 open" in page(client)


def test_who_is_not_signed_in_is_asked_to_sign_in(people: People, run: Run) -> None:
    answer = Client().get("/inbox")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/sign-in?next=/inbox")


def test_a_plain_form_decides_and_goes_on_to_the_next_request(people: People, run: Run) -> None:
    first, second = asked(people, run, "git push a"), asked(people, run, "git push b")
    client = browser_for(people.approver)
    status, _, headers = decide(client, first)
    assert (status, headers["Location"]) == (302, f"/inbox/{second.ref}")
    assert "Approved. fix-bot goes on." in page(client, second)
    first.refresh_from_db()
    assert (first.state, first.decided_by) == ("approved", people.approver.user)


def test_htmx_gets_the_next_card_its_address_and_the_focus_in_the_queue(
    people: People, run: Run
) -> None:
    first, second = asked(people, run, "git push a"), asked(people, run, "git push b")
    status, html, headers = decide(browser_for(people.approver), first, htmx=True)
    assert status == 200
    assert headers["HX-Push-Url"] == f"/inbox/{second.ref}"
    assert f'data-card="{second.ref}"' in html
    assert re.search(rf'id="open-{second.ref}"[^>]*aria-current="true"[^>]*autofocus', html)
    assert "<html" not in html


def test_after_the_last_request_of_the_queue_comes_the_first(people: People, run: Run) -> None:
    first, second = asked(people, run, "git push a"), asked(people, run, "git push b")
    _, _, headers = decide(browser_for(people.approver), second)
    assert headers["Location"] == f"/inbox/{first.ref}"
    _, _, headers = decide(browser_for(people.approver), first)
    assert headers["Location"] == "/inbox"


def test_the_agent_reads_the_reviewers_words(people: People, run: Run) -> None:
    execution = ask(people.agent, run, "git push origin main")
    request = request_of(execution)
    client = browser_for(people.approver)
    decide(client, request, "reject", reason="  Use the mirror.  ")
    execution.refresh_from_db()
    assert execution.state == "rejected"
    assert execution.reason == "Rejected by approver@example.org: Use the mirror."
    html = page(client, request)
    assert "Rejected by approver@example.org" in html
    assert "“Use the mirror.”" in html
    assert "<textarea" not in html


def test_a_yes_for_the_run_becomes_a_grant(people: People, run: Run) -> None:
    decide(browser_for(people.approver), asked(people, run), scope="run")
    again = ask(people.agent, run, "git push origin main")
    assert again.state == "queued"


def test_of_two_deciders_the_second_learns_who_was_first(people: People, run: Run) -> None:
    request = asked(people, run)
    vote(people.second_approver, request)
    client = browser_for(people.approver)
    status, html, headers = decide(client, request, "reject", htmx=True)
    assert status == 200
    assert toast(headers) == "second-approver@example.org was first and approved this request"
    assert "Approved by second-approver@example.org" in html
    status, _, headers = decide(client, request, "reject")
    assert headers["Location"] == f"/inbox/{request.ref}"
    assert "was first and approved this request" in page(client, request)


def test_a_card_that_has_changed_is_not_decided_and_comes_back_fresh(
    people: People, run: Run
) -> None:
    request = asked(people, run)
    _, html, headers = decide(
        browser_for(people.approver), request, htmx=True, review_token="0" * 32
    )
    assert "has changed since you saw it" in toast(headers)
    assert f'value="{request.review_token}"' in html
    request.refresh_from_db()
    assert request.state == "open"


@pytest.mark.parametrize(
    ("name", "value"), [("verdict", "maybe"), ("scope", "always"), ("reason", "x" * 4001)]
)
def test_a_tampered_form_is_refused(people: People, run: Run, name: str, value: str) -> None:
    request = asked(people, run)
    sent = {"verdict": "approve", "review_token": request.review_token, name: value}
    answer = browser_for(people.approver).post(f"/inbox/{request.ref}/decide", sent)
    assert answer.status_code == 422
    request.refresh_from_db()
    assert request.state == "open"


def test_a_form_from_another_site_is_refused(people: People, run: Run) -> None:
    request = asked(people, run)
    client = Client(enforce_csrf_checks=True)
    assert people.approver.user is not None
    client.force_login(people.approver.user)
    assert decide(client, request)[0] == 403
    request.refresh_from_db()
    assert request.state == "open"


def test_a_request_that_needs_two_votes_goes_on_waiting_after_the_first(
    people: People, run: Run
) -> None:
    policy_use(people.agent, TWO_VOTES, name="two")
    request = asked(people, run_ready(people.agent, people.approver, title="two votes"))
    client = browser_for(people.approver)
    _, _, headers = decide(client, request, htmx=True)
    assert toast(headers) == "Your vote counts. It needs 1 more."
    html = page(client, request)
    assert "You have voted; it still needs someone else" in html
    assert "1 of 2 votes" in html
    decide(browser_for(people.second_approver), request)
    request.refresh_from_db()
    assert request.state == "approved"


def test_the_card_is_fetched_again_only_when_it_would_read_differently(
    people: People, run: Run
) -> None:
    request = asked(people, run)
    client = browser_for(people.approver)
    seen = re.search(r'data-version="(\w+)"', page(client, request))
    assert seen is not None
    query = {"part": "card", "seen": seen[1]}
    path = f"/inbox/{request.ref}"
    assert client.get(path, query, headers=HTMX).status_code == 204
    vote(people.second_approver, request)
    answer = client.get(path, query, headers=HTMX)
    assert answer.status_code == 200
    assert "Approved by second-approver@example.org" in answer.content.decode()


def test_the_queue_refetches_itself_without_the_card(people: People, run: Run) -> None:
    request = asked(people, run)
    answer = browser_for(people.viewer).get(
        f"/inbox/{request.ref}", {"part": "queue"}, headers=HTMX
    )
    html = answer.content.decode().strip()
    assert html.startswith('<section class="queue"')
    assert "data-card" not in html


@pytest.mark.parametrize(
    ("script", "shown", "hidden"),
    [
        ("git push <script>alert(1)</script>", "&lt;script&gt;", "<script>alert"),
        ("git push 'a\u202egnp.exe'", '<span class="esc">\\u202e</span>', "\u202e"),
        ("git push a\u200bb", '<span class="esc">\\u200b</span>', "\u200b"),
        ("git push '\"><img src=x onerror=y>'", "&lt;img src=x", "<img src=x"),
    ],
)
def test_nothing_an_agent_wrote_is_interpreted_or_hidden(
    people: People, run: Run, script: str, shown: str, hidden: str
) -> None:
    html = page(browser_for(people.approver), asked(people, run, script))
    assert shown in html
    assert hidden not in html


def test_a_hostile_task_and_reason_stay_text(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver, title="<b>urgent</b>\u202e")
    request = asked(people, run)
    vote(people.second_approver, request, reason="<i>fine</i>")
    html = page(browser_for(people.approver), request)
    assert "<b>urgent" not in html
    assert "<i>fine" not in html
    assert "\u202e" not in html


def test_what_came_just_before_is_told_with_its_result(people: People, run: Run) -> None:
    work(ask(people.agent, run, "cat no-such-file"))
    html = page(browser_for(people.approver), asked(people, run))
    before = html[html.index("Just before") :]
    assert "cat no-such-file" in before
    assert "exit 1" in before


def test_earlier_decisions_on_the_same_command_are_told(people: People, run: Run) -> None:
    vote(people.approver, asked(people, run))
    decide(
        browser_for(people.approver), asked(people, run), "reject", reason="pin the lock file first"
    )
    vote(people.approver, asked(people, run, "git push elsewhere"))
    html = re.sub(r"\s+", " ", page(browser_for(people.approver), asked(people, run)))
    assert "asked for the same 2 times: approved 1, rejected 1." in html
    assert "pin the lock file first" in html


def test_an_expired_request_says_that_nothing_has_run(people: People, run: Run) -> None:
    request = asked(people, run)
    with time_machine.travel(now() + timedelta(days=2)):
        requests_expire()
    assert "Nobody decided in time, so nothing has run" in page(browser_for(people.viewer), request)


def test_a_request_whose_agent_is_gone_says_so(people: People, run: Run) -> None:
    request = asked(people, run)
    execution = Execution.objects.select_related("run", "request").get(pk=request.subject_id)
    execution_cancel(actor=people.agent, execution=execution)
    assert "The agent no longer waits for this" in page(browser_for(people.viewer), request)


def test_the_sentence_tells_a_line_without_a_rule_from_one_that_could_not_be_read(
    people: People, run: Run
) -> None:
    assert asked(people, run, "git push; make all").sentence == "fix-bot wants to run git and make"
    unread = asked(people, run, "git push $WHERE").sentence
    assert unread == "fix-bot wants to run git, in a line that could not be read in full"
