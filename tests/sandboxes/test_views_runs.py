"""The pages of runs."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from approvals.models import Verdict
from omniweb.core.models import AuditEntry
from sandboxes.models import Execution, ExecutionState, OutputChunk, Run, RunState
from sandboxes.selectors import output_tail, runs_found
from tests.factories import (
    OPEN_POLICY,
    ask,
    policy_use,
    request_of,
    run_again,
    run_ready,
    vote,
    work,
)
from tests.people import People, browser_for

HOSTILE = "\u202e<script>alert(1)</script>"
HTMX = {"HX-Request": "true"}


def part(client: Client, path: str, name: str) -> str:
    separator = "&" if "?" in path else "?"
    return client.get(f"{path}{separator}part={name}", headers=HTMX).text


@pytest.fixture
def run(people: People) -> Run:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    work(ask(people.agent, run, "echo it works"))
    return run_again(run)


def test_the_list_says_what_each_run_is_and_came_to(people: People, run: Run) -> None:
    ask(people.agent, run, "rm -rf /")
    text = browser_for(people.viewer).get("/runs").text
    for words in ("flaky checkout test", "fix-bot", "open", "v1", "Active", "1 denied", run.ref):
        assert words in text


def test_the_list_is_empty_with_a_way_on(people: People) -> None:
    client = browser_for(people.viewer)
    assert "No runs yet" in client.get("/runs").text
    assert "No run matches" in client.get("/runs?agent=nobody").text


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("state=active", True),
        ("state=failed", False),
        ("agent=fix-bot", True),
        ("provider=local", True),
        ("provider=docker", False),
        ("text=CHECKOUT", True),
        ("text=it+works", True),
        ("text=never+said", False),
    ],
)
def test_the_filters_of_the_address_narrow_the_list(
    people: People, run: Run, query: str, is_found: bool
) -> None:
    assert (run.ref in browser_for(people.viewer).get(f"/runs?{query}").text) is is_found


def test_an_unknown_state_is_refused_with_those_there_are(people: People) -> None:
    answer = browser_for(people.viewer).get("/runs?state=sleepy")
    assert answer.status_code == 422
    assert "succeeded" in answer.text


def test_a_command_with_quotes_and_other_letters_is_found(people: People, run: Run) -> None:
    ask(people.agent, run, 'echo "grüße"')
    assert list(runs_found(people.viewer, text='"grüße"')) == [run]


def test_a_live_list_asks_for_itself_with_its_filters(people: People, run: Run) -> None:
    text = part(browser_for(people.viewer), "/runs?agent=fix-bot", "list")
    assert text.lstrip().startswith('<div id="run-list"')
    assert "agent=fix-bot" in text
    assert "<html" not in text


def test_the_run_page_tells_its_story(people: People, run: Run) -> None:
    execution = ask(people.agent, run, "git push")
    vote(people.approver, request_of(execution), Verdict.REJECT, reason="Not on a Friday")
    text = browser_for(people.viewer).get(f"/runs/{run.ref}").text
    for words in ("echo it works", "git push", "Not on a Friday", "owner@example.org"):
        assert words in text
    assert "Not isolated." in text


def test_what_an_agent_wrote_is_shown_and_never_interpreted(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver, title=HOSTILE)
    work(ask(people.agent, run, f"echo '{HOSTILE}'"))
    client = browser_for(people.viewer)
    for path in ("/runs", f"/runs/{run.ref}", "/sandboxes?show=all"):
        text = client.get(path).text
        assert "<script>alert" not in text, path
        assert "\u202e" not in text, path
        assert "\\u202e" in text, path


def test_a_secret_in_the_manifest_is_not_on_the_page(people: People, run: Run) -> None:
    run.manifest["environment"] = {"plain": {"API_TOKEN": "hush-hush-1234"}}
    run.save(update_fields=["manifest"])
    assert "hush-hush" not in browser_for(people.viewer).get(f"/runs/{run.ref}").text


def test_the_live_part_brings_all_that_changes_with_it(people: People, run: Run) -> None:
    text = part(browser_for(people.operator), f"/runs/{run.ref}", "live")
    for part_id in ("run-live", "run-state", "run-strip", "run-facts"):
        assert f'id="{part_id}"' in text
    assert text.count("hx-swap-oob") == 3
    # The question whether to end it may be open: it is only replaced once it makes no sense.
    assert "run-acts" not in text


def test_what_runs_now_shows_the_end_of_its_output_as_text(people: People, run: Run) -> None:
    execution = running(ask(people.agent, run, "sleep 5"))
    for data in (b"one\n" * 2000, b"\x1b[32mgreen\x1b[0m <b>", "zürich\n".encode()):
        OutputChunk.objects.create(execution=execution, stream="stdout", data=data)
    text = part(browser_for(people.viewer), f"/runs/{run.ref}", "now")
    assert "sleep 5" in text
    assert '<span class="ansi-fg-2">green</span> &lt;b&gt;' in text
    assert "zürich" in text
    assert text.count("one\n") < 1001


def running(execution: Execution) -> Execution:
    Execution.objects.filter(pk=execution.pk).update(
        state=ExecutionState.RUNNING, started_at=timezone.now()
    )
    return execution


def test_a_tail_is_the_last_bytes_over_all_chunks(people: People, run: Run) -> None:
    execution = ask(people.agent, run, "true")
    for data in (b"abc", b"def", b"ghi"):
        OutputChunk.objects.create(execution=execution, stream="stdout", data=data)
    assert output_tail(execution, 5) == b"efghi"
    assert output_tail(execution) == b"abcdefghi"


def test_an_operator_ends_a_run_and_the_log_says_so(people: People, run: Run) -> None:
    answer = browser_for(people.operator).post(f"/runs/{run.ref}/end", follow=True)
    assert "is being ended" in answer.text
    assert run_again(run).state == RunState.FINISHING
    assert AuditEntry.objects.filter(act="run.end", subject=run.ref).exists()
    again = browser_for(people.operator).post(f"/runs/{run.ref}/end", follow=True)
    assert "was over already" in again.text


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_others_see_no_way_to_end_a_run_and_have_none(people: People, run: Run, name: str) -> None:
    client = browser_for(people.everyone[name])
    assert "End run" not in client.get(f"/runs/{run.ref}").text
    assert client.post(f"/runs/{run.ref}/end").status_code == 403
    assert run_again(run).state == RunState.ACTIVE


def test_the_record_is_a_download_for_people_too(people: People, run: Run) -> None:
    answer = browser_for(people.viewer).get(f"/runs/{run.ref}/trajectory.json")
    body = json.loads(answer.content)
    assert body["run_id"] == run.ref
    assert body["segments"][0]["trajectory"]["steps"][0]["tool_calls"][0]["outcome"] == "success"
    assert "attachment" in answer["Content-Disposition"]


def test_another_teams_run_is_not_there(people: People, run: Run) -> None:
    client = browser_for(people.outsider)
    assert run.ref not in client.get("/runs").text
    for path in ("", "/trajectory.json"):
        assert client.get(f"/runs/{run.ref}{path}").status_code == 404
    assert client.post(f"/runs/{run.ref}/end").status_code == 404


def test_nobody_reads_without_signing_in(people: People, run: Run) -> None:
    for path in ("/runs", f"/runs/{run.ref}", f"/runs/{run.ref}/trajectory.json"):
        answer = Client().get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in")


def test_a_longer_run_takes_no_more_queries(people: People, run: Run) -> None:
    client = browser_for(people.viewer)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(f"/runs/{run.ref}")
        return len(captured)

    before = queries()
    for number in range(5):
        work(ask(people.agent, run, f"echo {number}"))
    assert queries() <= before
