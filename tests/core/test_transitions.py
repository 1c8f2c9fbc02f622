"""State changes as conditional updates, for every model that has states."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from django.apps import apps
from hypothesis import given
from hypothesis import strategies as st

from approvals.models import Request
from omniweb.core.errors import IllegalTransition
from omniweb.core.transitions import arrows, transition
from sandboxes.models import Execution
from tests.factories import OPEN_POLICY, ask, policy_use, run_ready
from tests.people import People

STATEFUL = [model for model in apps.get_models() if hasattr(model, "TRANSITIONS")]


@pytest.mark.parametrize("model", STATEFUL, ids=lambda model: model.__name__)
def test_every_state_is_in_the_table_and_every_table_entry_is_a_state(model: type) -> None:
    states = set(dict(model._meta.get_field("state").choices))  # type: ignore[attr-defined]  # a model
    assert set(model.TRANSITIONS) == states  # type: ignore[attr-defined]  # chosen for having it


@pytest.mark.parametrize("model", STATEFUL, ids=lambda model: model.__name__)
def test_every_state_can_be_reached_from_the_first(model: type) -> None:
    table = model.TRANSITIONS  # type: ignore[attr-defined]  # chosen for having it
    first = model._meta.get_field("state").default  # type: ignore[attr-defined]  # a model
    reached, frontier = {str(first)}, [str(first)]
    while frontier:
        for target in table[frontier.pop()] - reached:
            reached.add(target)
            frontier.append(target)
    assert reached == set(table)


def test_an_arrow_to_nowhere_fails_at_import() -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        arrows({"here": {"elsewhere"}})


def test_what_no_arrow_leads_to_is_an_error(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    with pytest.raises(IllegalTransition):
        transition(run, "opening")


def test_a_lost_race_is_told_and_leaves_the_row_in_memory_alone(people: People) -> None:
    policy_use(people.agent, OPEN_POLICY)
    run = run_ready(people.agent, people.approver)
    asked = ask(people.agent, run, "git push")
    twin = Execution.objects.get(pk=asked.pk)
    assert transition(asked, "cancelled")
    assert not transition(twin, "queued")
    assert twin.state == "waiting"


@given(st.lists(st.sampled_from(sorted(Request.TRANSITIONS)), max_size=12))
def test_no_walk_leaves_an_ended_request(walk: list[str]) -> None:
    state = "open"
    for target in walk:
        if target in Request.TRANSITIONS[state]:
            state = target
    ends = {"rejected", "expired", "withdrawn", "superseded", "spent"}
    assert all(not Request.TRANSITIONS[end] for end in ends)
    assert state in Request.TRANSITIONS


def test_only_services_and_the_executor_write_states() -> None:
    allowed = {"services", "executor.py", "transitions.py"}
    for room in ("omniweb", "approvals", "sandboxes", "trajectories"):
        for path in Path(room).rglob("*.py"):
            if allowed & set(path.parts) or "migrations" in path.parts:
                continue
            calls = [
                node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
            ]
            names = {ast.unparse(call.func) for call in calls}
            assert "transition" not in names, f"{path} changes a state outside services"
