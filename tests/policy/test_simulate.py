"""Recorded decisions put to another policy."""

from __future__ import annotations

import json
from itertools import count

import pytest

from approvals.policy.document import load_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.simulate import (
    BY_MODE,
    BY_SANDBOX,
    MAX_EXAMPLES,
    MAX_GROUPS,
    Recorded,
    Replay,
    Tally,
    is_looser,
    ordered_directions,
)

KEYS = count()


def replay(mode: str = "strict", **rules: list[dict[str, object]]) -> Replay:
    document = {"name": "draft", "mode": mode, "rules": rules}
    return Replay(compile_policy(load_document(document)))


def recorded(
    script: str = "ls",
    effect: str = "deny",
    *,
    run: str = "a run",
    agent: str = "fix-bot",
    reason_code: str = "",
    rules: tuple[str, ...] = (),
    **request: object,
) -> Recorded:
    asked = {
        "capability": "process.exec",
        "execution_surface": "sandbox",
        "command": ["sh", "-c", script],
    }
    question = json.dumps(asked | request)
    code = reason_code or (f"matched_{effect}" if rules else "unknown_capability")
    return Recorded(next(KEYS), agent, run, effect, code, rules, question)


def tallied(over: Replay, *some: Recorded) -> Tally:
    tally = Tally()
    tally.add(over, some)
    return tally


ALLOW_LS: dict[str, object] = {
    "rule_id": "allow_ls",
    "capability": "process.exec",
    "command": {"program": "ls"},
}


def test_a_decision_that_comes_out_the_same_is_no_flip() -> None:
    tally = tallied(replay(), recorded(effect="deny"))
    assert (tally.seen, tally.flips, tally.unjudged) == (1, 0, 0)


def test_a_flip_names_who_decided_then_and_who_would_now() -> None:
    tally = tallied(replay(allow=[ALLOW_LS]), recorded(rules=("deny_all", "deny_more")))
    assert tally.by_rule == {("deny>allow", "deny_all", "allow_ls"): 1}


def test_where_no_rule_spoke_the_mode_is_named() -> None:
    tally = tallied(replay("permissive"), recorded(effect="ask"))
    assert tally.by_rule == {("ask>allow", BY_MODE, BY_MODE): 1}


def test_what_becomes_looser_comes_first_and_deny_to_allow_before_all() -> None:
    directions = ordered_directions()
    assert directions[0] == "deny>allow"
    assert [is_looser(one) for one in directions] == [True] * 3 + [False] * 3


def test_a_masked_word_is_not_guessed_but_counted() -> None:
    masked = recorded("curl -H '[REDACTED]' example.org")
    tally = tallied(replay("permissive"), masked, recorded())
    assert (tally.seen, tally.unjudged, tally.flips) == (2, 1, 1)


def test_a_secret_masked_in_metadata_keeps_nothing_from_being_judged() -> None:
    tally = tallied(replay("permissive"), recorded(metadata={"stdin": "[REDACTED]"}))
    assert (tally.unjudged, tally.flips) == (0, 1)


def test_a_record_that_no_policy_could_be_asked_is_not_judged() -> None:
    tally = tallied(replay(), recorded(risk_level="enormous"))
    assert tally.unjudged == 1


@pytest.mark.parametrize(
    ("surface", "reason_code", "direction"),
    [("sandbox", "", "deny>allow"), ("host", "", ""), ("sandbox", "sandbox_required", "")],
)
def test_a_rule_that_requires_a_sandbox_denies_where_there_was_none(
    surface: str, reason_code: str, direction: str
) -> None:
    rule = ALLOW_LS | {"constraints": {"sandbox_required": True}}
    row = recorded(execution_surface=surface, reason_code=reason_code)
    assert dict(tallied(replay(allow=[rule]), row).directions) == (
        {direction: 1} if direction else {}
    )
    asked = row._replace(effect="ask")
    changed = tallied(replay(allow=[rule]), asked).by_rule
    by = "allow_ls" if direction else BY_SANDBOX
    assert {now_by for _, _, now_by in changed} == {by}


def test_the_first_divergence_of_each_run_is_kept() -> None:
    rows = [recorded("ls", "allow"), recorded("ls"), recorded("ls -l"), recorded(run="another")]
    tally = tallied(replay(allow=[ALLOW_LS]), *rows)
    firsts = {run: flip.key for run, flip in tally.first_in_run.items()}
    assert firsts == {"a run": rows[1].key, "another": rows[3].key}


def test_however_many_flip_the_examples_and_groups_have_their_limits() -> None:
    rows = [recorded(f"ls {n}", rules=(f"rule_{n}",)) for n in range(MAX_GROUPS + 30)]
    tally = tallied(replay(allow=[ALLOW_LS]), *rows)
    assert tally.flips == len(rows)
    assert len(tally.examples["deny>allow"]) == MAX_EXAMPLES
    assert len(tally.by_rule) == MAX_GROUPS
    assert tally.ungrouped == 30


def test_the_same_question_is_one_example_and_counted() -> None:
    tally = tallied(replay(allow=[ALLOW_LS]), recorded(), recorded("ls -l"), recorded())
    first, second = tally.examples["deny>allow"]
    assert tally.repeats == {("deny>allow", first): 2, ("deny>allow", second): 1}


def test_a_question_asked_often_is_decided_once() -> None:
    over = replay(allow=[ALLOW_LS])
    first = over.judge(recorded().question)
    assert over.judge(recorded().question) is first
