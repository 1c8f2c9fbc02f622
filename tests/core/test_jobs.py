"""Tasks are enqueued by name: every name leads to a task."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.db import transaction

from omniweb.celery import app, beat_schedule
from omniweb.core import jobs


def enqueued_names() -> set[str]:
    """Return every task name that some service enqueues."""
    names = set()
    for room in ("omniweb", "approvals", "sandboxes", "trajectories"):
        for path in Path(room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "enqueue"
                if is_call and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]  # a call
                    names.add(str(node.args[0].value))  # type: ignore[attr-defined]  # a call
    return names


def task_names() -> set[str]:
    """Return the names of all tasks there are."""
    for room in ("approvals", "sandboxes", "omniweb.web"):
        if find_spec(f"{room}.tasks"):
            import_module(f"{room}.tasks")
    return set(app.tasks)


def test_every_enqueued_name_is_a_task() -> None:
    assert enqueued_names() - task_names() == set()


def test_everything_the_clock_starts_is_a_task() -> None:
    assert {str(job["task"]) for job in beat_schedule(5).values()} - task_names() == set()


@pytest.mark.django_db(transaction=True)
def test_nothing_is_enqueued_when_the_transaction_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: sent.append(name)
    )
    with transaction.atomic():
        jobs.enqueue("sandboxes.reconcile")
        transaction.set_rollback(True)
    assert sent == []
    with transaction.atomic():
        jobs.enqueue("sandboxes.reconcile")
        assert sent == []
    assert sent == ["sandboxes.reconcile"]


@pytest.mark.django_db(transaction=True)
def test_an_unreachable_broker_does_not_undo_the_act(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, kwargs: dict[str, str]) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr("omniweb.core.jobs.current_app.send_task", fail)
    with transaction.atomic():
        jobs.enqueue("sandboxes.reconcile")
