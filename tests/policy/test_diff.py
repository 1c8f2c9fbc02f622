"""What a change of a policy means, and how its text changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.diff import Change, PolicyChanges, policy_changes
from approvals.policy.document import load_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.textdiff import MAX_COMPARED, text_diff
from tests.policy.build import policy, rule

RM: dict[str, Any] = {"command": {"program": "rm"}}
PUSH: dict[str, Any] = {"command": {"prefix": ["git", "push"]}}


def changes(before: dict[str, Any], after: dict[str, Any]) -> PolicyChanges:
    return policy_changes(*(compile_policy(load_document(one)) for one in (before, after)))


def kept(name: str, *command: str) -> dict[str, Any]:
    request = {"capability": "process.exec", "command": list(command)}
    return {"name": name, "request": request, "expect": "deny"}


def test_rules_are_added_removed_and_changed() -> None:
    before = policy("strict", deny=[rule("no_rm", **RM)], ask=[rule("push", **PUSH)])
    after = policy("strict", deny=[rule("push", **PUSH)], allow=[rule("look", **RM)])
    found = {change.rule_id: change for change in changes(before, after).rules}
    assert {name: change.kind for name, change in found.items()} == {
        "push": Change.CHANGED,
        "look": Change.ADDED,
        "no_rm": Change.REMOVED,
    }
    (part,) = found["push"].parts
    assert (part.name, part.before, part.after) == ("effect", "ask", "deny")
    assert found["no_rm"].to_dict()["after"] is None


def test_an_equal_meaning_is_no_change() -> None:
    one = policy("strict", deny=[rule("no_rm", **RM), rule("push", **PUSH)])
    other = policy("strict", deny=[rule("push", effect="deny", **PUSH), rule("no_rm", **RM)])
    assert changes(one, other).is_empty


def test_the_mode_is_told() -> None:
    (part,) = changes(policy("strict"), policy("permissive")).whole
    assert (part.name, part.before, part.after) == ("mode", "strict", "permissive")


def test_known_requests_that_flip_come_deny_to_allow_first() -> None:
    examples: dict[str, Any] = {"examples": {"match": ["git push"], "not_match": ["git log"]}}
    before = policy(
        "permissive", deny=[rule("no_rm", **RM)], ask=[rule("push", **PUSH, **examples)]
    )
    before["tests"] = [kept("removing", "rm", "x")]
    after = policy("permissive", deny=[rule("no_log", command={"prefix": ["git", "log"]})])
    after["tests"] = [kept("removing again", "rm", "x"), kept("looking", "ls")]
    found = changes(before, after)
    assert found.asked == 4
    said = [(flip.name, flip.before.effect, flip.after.effect) for flip in found.flips]
    assert said == [
        ("removing", "deny", "allow"),
        ("git push", "ask", "allow"),
        ("git log", "allow", "deny"),
    ]
    assert [flip.is_loosened for flip in found.flips] == [True, True, False]
    assert found.flips[0].to_dict()["before_rules"] == ["no_rm"]


def test_only_what_differs_is_shown_with_a_few_lines_around_it() -> None:
    before = "\n".join(f"line {number}" for number in range(1, 21))
    after = before.replace("line 10", "line ten")
    kinds = [line.kind for line in text_diff(before, after)]
    assert kinds == ["gap", "same", "same", "same", "del", "add", "same", "same", "same", "gap"]
    assert text_diff(before, after)[0].text == "6 lines that are the same"
    changed = [line for line in text_diff(before, after) if line.kind in ("add", "del")]
    assert [(line.before, line.after) for line in changed] == [(10, None), (None, 10)]


def test_texts_that_are_the_same_have_no_difference() -> None:
    assert text_diff("a\nb", "a\nb\n") == []


def test_texts_that_have_nothing_in_common_are_compared_fast() -> None:
    size = MAX_COMPARED + 1
    lines = text_diff("a\n" * size, "b\n" * size)
    assert len(lines) == 2 * size


LINES = st.lists(st.sampled_from("abc"), max_size=30)


@given(before=LINES, after=LINES)
def test_a_difference_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    lines = text_diff("\n".join(before), "\n".join(after))
    for line in lines:
        if line.before is not None:
            assert before[line.before - 1] == line.text
        if line.after is not None:
            assert after[line.after - 1] == line.text
    removed = {line.before for line in lines if line.kind == "del"}
    added = {line.after: line.text for line in lines if line.kind == "add"}
    rest = iter([text for at, text in enumerate(before, 1) if at not in removed])
    rebuilt = [
        added[at] if at in added else next(rest)
        for at in range(1, len(before) - len(removed) + len(added) + 1)
    ]
    assert rebuilt == after
