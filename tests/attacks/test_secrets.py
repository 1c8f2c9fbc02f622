"""Secrets planted everywhere come up nowhere: not in answers, pages, logs, tasks, nor in any row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from celery.signals import before_task_publish
from pytest_django import DjangoCaptureOnCommitCallbacks

from approvals.policy.document import parse_document
from omniweb.api import api
from sandboxes.models import Execution
from tests.attacks.pages import SIGNED_IN
from tests.attacks.planting import VARIABLES, World, plant_all, planted, world_new
from tests.factories import OPEN_POLICY, ask, policy_use, request_of, run_ready, vote, work
from tests.people import People

# Where a secret has to be kept as it is, with the reason.
KEPT = {
    "sandboxes_execution.argv": "the worker starts it",
    "sandboxes_execution.cwd": "the worker starts it there",
    "sandboxes_execution.env": "the worker starts it with them",
    "sandboxes_execution.stdin": "the worker feeds it",
    "sandboxes_run.manifest": "its sandbox is made from it",
    "sandboxes_run.options": "its provider is opened with them",
    "sandboxes_environment.manifest": "sandboxes are made from it",
    "sandboxes_environment.options": "its provider is opened with them",
}


# An error tells its sender what was wrong with what was sent, in the sender's own words.
QUOTED = {"address", "beyond", "file"}

# Prints every row of every table as JSON, its bytes as Latin-1 so that nothing is lost.
DUMP = """
import json
from django.apps import apps
from omniweb.core.models import Row
def text(value):
    return bytes(value).decode("latin-1") if isinstance(value, (bytes, memoryview)) else value
for model in apps.get_models():
    for row in model._default_manager.all():
        columns = {f.column: text(getattr(row, f.attname)) for f in model._meta.concrete_fields}
        ref = row.ref if isinstance(row, Row) else ""
        print(json.dumps({"table": model._meta.db_table, "ref": ref, "columns": columns}, default=str))
"""

# First part of a reference, and what addresses of pages and of the API call it.
KINDS = {
    "run": ("run", "runs"),
    "exe": ("execution", "executions"),
    "req": ("request", "requests"),
    "dec": ("decision", "decisions"),
    "env": ("environment", "environments"),
    "sbx": ("sandbox", "sandboxes"),
    "agt": ("agent", "agents"),
    "pol": ("policy", "policies"),
    "trj": ("trajectory", "trajectories"),
    "gra": ("grant", "grants"),
    "sec": ("secret", "secrets"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = world_new(tmp_path_factory.mktemp("secrets"))
    try:
        plant_all(world)
        yield world
    finally:
        world.server.remove()


@pytest.fixture(scope="module")
def rows(world: World) -> list[dict[str, Any]]:
    """Every row of the database."""
    lines = world.server.manage("shell", "--no-imports", "-c", DUMP).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def references(rows: list[dict[str, Any]], kind: str) -> list[str]:
    """Return the references of a kind, as addresses of pages or of the API call it."""
    return [row["ref"] for row in rows if kind in KINDS.get(row["ref"][:3], ())]


def blobs(rows: list[dict[str, Any]]) -> list[str]:
    return [row["columns"]["digest"] for row in rows if row["ref"].startswith("blb")]


def test_the_pipeline_has_been_driven_to_every_end(rows: list[dict[str, Any]]) -> None:
    states = {row["columns"]["state"] for row in rows if row["table"] == "sandboxes_execution"}
    assert states >= {"finished", "denied"}
    tables = {row["table"] for row in rows}
    assert tables >= {"approvals_vote", "trajectories_blob", "trajectories_step", "core_auditentry"}


def test_no_answer_of_the_pipeline_holds_a_secret(world: World) -> None:
    refused = [heard for heard in world.heard if heard[0][-3:] >= "400"]
    answered = [heard for heard in world.heard if heard[0][-3:] < "400"]
    assert world.leaks(answered) == {}
    assert set(world.leaks(refused)) <= QUOTED


def test_nothing_that_the_api_reads_out_holds_a_secret(
    world: World, rows: list[dict[str, Any]]
) -> None:
    texts = []
    with world.server.client(world.server.admin_token) as admin:
        for url in read_by_api(rows):
            answer = admin.get(url)
            assert answer.status_code == 200, f"{url}: {answer.text}"
            texts.append((url, answer.text))
    assert world.leaks(texts) == {}


def read_by_api(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the addresses of all that people may read, of everything there is."""
    for path, methods in api.get_openapi_schema()["paths"].items():
        if not methods.get("get", {}).get("x-people"):
            continue
        if "{ref}" not in path:
            yield path
        for reference in references(rows, path.split("/")[3]) if "{ref}" in path else ():
            for stream in ("stdout", "stderr") if "{stream}" in path else ("",):
                for digest in blobs(rows) if "{digest}" in path else ("",):
                    rule = rule_of(rows, reference) if "{rule_id}" in path else ""
                    if rule is not None:
                        parts = {"stream": stream, "digest": digest, "number": 1, "rule_id": rule}
                        yield path.format(ref=reference, **parts)


def test_no_page_shows_a_secret(world: World, rows: list[dict[str, Any]]) -> None:
    texts = []
    browser = world.server.browser("admin@localhost")
    for url in read_by_pages(rows):
        answer = browser.get(url)
        assert answer.status_code == 200, url
        texts.append((url, answer.text))
    browser.close()
    assert world.leaks(texts) == {}


def read_by_pages(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the addresses of every page, of everything there is."""
    digests = blobs(rows)
    for page in SIGNED_IN:
        if not page.get:
            continue
        for reference in references(rows, page.on) if page.on else [""]:
            if page.name == "version_new" and is_builtin(rows, reference):
                continue
            rule = rule_of(rows, reference)
            if page.name == "policy_rule" and rule is None:
                continue
            for digest in digests if page.name == "trajectory_blob" else [""]:
                yield page.url({page.on: reference, "digest": digest, "ask_all": rule})
                if page.name == "environment_edit":
                    yield page.url({page.on: reference}) + "?as=json"


def rule_of(rows: list[dict[str, Any]], reference: str) -> str | None:
    """Return the id of a rule of a policy, None where it has none."""
    keys = [row["columns"]["id"] for row in rows if reference and row["ref"] == reference]
    sources = [
        row["columns"]["source"]
        for row in rows
        if row["ref"].startswith("ver") and row["columns"]["policy_id"] in keys
    ]
    rules = (rule.rule_id for text in sources for _, _, rule in parse_document(text).each_rule())
    return next(rules, None)


def is_builtin(rows: list[dict[str, Any]], reference: str) -> bool:
    return any(row["ref"] == reference and row["columns"]["is_builtin"] for row in rows)


def test_no_row_keeps_a_secret_but_where_it_must(world: World, rows: list[dict[str, Any]]) -> None:
    texts = [
        (column, value if isinstance(value, str) else json.dumps(value))
        for row in rows
        for name, value in row["columns"].items()
        if (column := f"{row['table']}.{name}") not in KEPT
    ]
    assert world.leaks(texts) == {}


def test_what_is_kept_is_nothing_of_the_servers_own(
    world: World, rows: list[dict[str, Any]]
) -> None:
    """The exceptions hold what an agent or an admin gave; tokens and variables are in none."""
    own = {"mail", "agent's token", "admin's token", *VARIABLES}
    assert own <= set(world.secrets)
    assert not own & set(world.leaks([("", json.dumps(rows))]))


def test_the_log_and_the_files_beside_the_database_hold_no_secret(world: World) -> None:
    assert "event=" in world.server.log.read_text()
    texts = [
        (path.name, path.read_bytes().decode("latin-1"))
        for path in world.server.data.rglob("*")
        # Where the agent itself works is the agent's.
        if path.is_file() and "sqlite3" not in path.name and "leaky" not in path.parts
    ]
    assert world.leaks(texts) == {}


def test_the_agent_reads_no_secret_back(world: World, rows: list[dict[str, Any]]) -> None:
    texts = []
    with world.server.client(world.server.token("leaky-bot")) as agent:
        for path, methods in api.get_openapi_schema()["paths"].items():
            of_agents = methods.get("get", {}).get("x-agents") and "{ref}" in path
            if not of_agents or path.endswith("/files"):
                continue
            for reference in references(rows, path.split("/")[3]):
                url = path.format(ref=reference, stream="stdout")
                texts.append((url, agent.get(url).text))
    assert world.leaks(texts) == {}


def test_tasks_are_told_references_only(
    people: People, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    secret = planted("task")
    published: list[str] = []

    def note(body: Any = None, headers: Any = None, **_: Any) -> None:
        published.append(json.dumps([body, headers], default=str))

    before_task_publish.connect(note)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            policy_use(people.agent, OPEN_POLICY)
            run = run_ready(people.agent, people.approver, title=f"token={secret}")
        with django_capture_on_commit_callbacks(execute=True):
            env = {"CALL_TOKEN": secret}
            work(ask(people.agent, run, f"echo {secret}", env=env, stdin=secret.encode()))
            asked = ask(people.agent, run, f"git push --token {secret}", env=env)
        with django_capture_on_commit_callbacks(execute=True):
            vote(people.approver, request_of(asked), reason=f"token={secret}")
    finally:
        before_task_publish.disconnect(note)
    assert Execution.objects.filter(state="queued").exists()
    assert any("execution_run" in text for text in published)
    assert not [text for text in published if secret in text]
