"""Kinds and payloads: what is permanent, what readers forgive and writers may not do."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Discriminator, TypeAdapter

from omniweb.core.errors import InvalidInput
from trajectories.steps import (
    COMMAND_CAPABILITY,
    Note,
    Payload,
    StepKind,
    payload_check,
    payload_read,
    subject_of,
)
from trajectories.viewer.lines import _WORDS

# Codes are in records kept for years: this list only grows, at its end.
CODES = [
    "run_opened", "message", "model_call", "tool_call", "authority_decision", "request_opened",
    "vote", "request_decided", "grant_used", "sandbox_state", "execution_started", "output",
    "execution_ended", "file_written", "file_read", "budget", "guardrail", "note", "annotation",
    "checkpoint", "run_ended", "imported",
]  # fmt: skip

# What each payload cannot do without; a new field here would break every old record.
REQUIRED = {
    "run_opened": {"run", "agent"},
    "message": {"role", "text"},
    "tool_call": {"tool"},
    "authority_decision": {"decision", "capability", "effect"},
    "request_opened": {"request"},
    "vote": {"request", "verdict", "voter"},
    "request_decided": {"request", "outcome"},
    "grant_used": {"grant"},
    "sandbox_state": {"sandbox", "state"},
    "execution_started": {"execution", "argv"},
    "output": {"execution", "stream"},
    "execution_ended": {"execution", "state"},
    "file_written": {"path"},
    "file_read": {"path"},
    "note": {"text"},
    "annotation": {"text"},
    "checkpoint": {"count", "head", "public_key", "signature"},
    "run_ended": {"state"},
    "imported": {"format"},
}


def payloads() -> list[type[Payload]]:
    """Return the models of all kinds, without the bases they share."""
    found = [Payload]
    for model in found:
        found += [sub for sub in model.__subclasses__() if sub.__module__ == Payload.__module__]
    return [model for model in found if model.model_fields["kind"].default in set(StepKind)]


def test_codes_are_permanent() -> None:
    assert [kind.value for kind in StepKind] == CODES


def test_every_kind_has_one_payload_and_one_line() -> None:
    kinds = [model.model_fields["kind"].default for model in payloads()]
    assert sorted(kinds) == sorted(StepKind)
    assert set(_WORDS) == set(StepKind)


def test_old_payloads_stay_readable() -> None:
    for model in payloads():
        fields = model.model_fields
        required = {name for name, field in fields.items() if field.is_required()} - {"kind"}
        assert required == REQUIRED.get(fields["kind"].default, set()), model.__name__


def test_using_a_code_again_fails_at_import() -> None:
    class Twin(Payload):
        kind: Literal[StepKind.NOTE] = StepKind.NOTE

    with pytest.raises(TypeError, match="note"):
        TypeAdapter(Annotated[Note | Twin, Discriminator("kind")])


def test_readers_ignore_what_a_later_version_added() -> None:
    note = payload_read("note", {"text": "hello", "colour": "blue"})
    assert note == Note(text="hello")


def test_writers_may_not_invent_fields() -> None:
    with pytest.raises(InvalidInput, match="colour") as caught:
        payload_check(StepKind.NOTE, {"text": "hello", "colour": "blue"})
    assert caught.value.problems[0].path == "colour"


def test_a_payload_under_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match="vote step cannot carry a note"):
        payload_check(StepKind.VOTE, Note(text="hello"))


def test_what_is_kept_is_short() -> None:
    assert payload_check(StepKind.NOTE, Note(text="hello")) == {"text": "hello"}


def test_nothing_is_lost_inside_free_data() -> None:
    kept = payload_check(
        StepKind.RUN_OPENED, {"run": "r", "agent": "a", "manifest": {"image": None, "x": [None]}}
    )
    assert kept["manifest"] == {"image": None, "x": [None]}


@pytest.mark.parametrize("payload", [{}, {"subject": "no key"}, {"execution": "exe_short"}])
def test_a_step_about_nothing_known_has_no_subject(payload: dict[str, str]) -> None:
    assert subject_of(payload) is None


def test_commands_are_the_capability_of_the_policy_documents() -> None:
    assert COMMAND_CAPABILITY == "process.exec"
