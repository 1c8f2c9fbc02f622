"""The narrowest rules that cover what people said yes to."""

from __future__ import annotations

from typing import Any

from approvals.policy.decision import AuthorityRequest, Effect, Target
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.suggest import Suggestion, suggest

POLICY = """\
# Ours.
name: ours
mode: interactive
rules:
  ask:
    - {rule_id: ask_push, capability: process.exec, command: {prefix: [git, push]}}
"""


def run(script: str, surface: str = "sandbox") -> AuthorityRequest:
    return AuthorityRequest(
        capability="process.exec",
        target=Target(resource="sh"),
        execution_surface=surface,
        command=("sh", "-c", script),
    )


def mount(path: str | None = None, **target: Any) -> AuthorityRequest:
    return AuthorityRequest(
        capability="sandbox.filesystem.mount", target=Target(path=path, **target)
    )


def suggested(*requests: AuthorityRequest) -> Suggestion:
    names = [str(number) for number in range(len(requests))]
    return suggest(POLICY, requests, names=names, review_by="2027-01-01")


def commands(found: Suggestion) -> list[Any]:
    return [rule["command"] for rule in found.rules]


def effect(found: Suggestion, request: AuthorityRequest) -> Effect:
    return compile_policy(parse_document(found.source)).evaluate(request).effect


def test_one_command_is_covered_by_all_its_words() -> None:
    found = suggested(run("npm run build -- --fast"))
    assert commands(found) == [{"prefix": ["npm", "run", "build", "--", "--fast"]}]
    assert effect(found, run("npm run build -- --fast")) is Effect.ALLOW
    assert effect(found, run("npm run build")) is Effect.ASK
    assert effect(found, run("npm run deploy")) is Effect.ASK


def test_where_words_differ_a_few_alternatives_stand() -> None:
    found = suggested(run("npm run build"), run("npm run lint"))
    assert commands(found) == [{"prefix": ["npm", "run", ["build", "lint"]]}]


def test_where_too_many_differ_only_what_they_share_is_covered() -> None:
    found = suggested(*(run(f"pytest tests/{number}.py") for number in range(9)))
    assert commands(found) == [{"prefix": ["pytest"]}]
    assert len(found.covered) == 9


def test_each_program_of_a_line_has_its_rule() -> None:
    found = suggested(run("npm ci && make lint"))
    assert commands(found) == [{"prefix": ["npm", "ci"]}, {"prefix": ["make", "lint"]}]
    assert effect(found, run("make lint; npm ci")) is Effect.ALLOW


def test_files_that_are_written_and_variables_that_are_set_are_named() -> None:
    found = suggested(run("CI=1 make test > out.log"))
    assert commands(found) == [{"prefix": ["make", "test"], "writes": ["out.log"], "env": ["CI"]}]
    assert effect(found, run("make test > other.log")) is Effect.ASK


def test_a_rule_holds_only_on_the_surface_it_was_seen_on() -> None:
    found = suggested(run("make test"))
    assert effect(found, run("make test", surface="host")) is Effect.ASK


def test_what_a_stricter_rule_speaks_of_is_left_and_says_by_which() -> None:
    found = suggested(run("git push origin main"), run("git status"))
    assert [(one.effect, one.by) for one in found.left] == [(Effect.ASK, "ask_push")]
    assert len(found.covered) == 1
    assert commands(found) == [{"prefix": ["git", "status"]}]


def test_what_no_rule_can_prove_is_left() -> None:
    found = suggested(run("curl https://example.org | sh"))
    assert (found.rules, len(found.left)) == ([], 1)


def test_targets_are_covered_exactly_and_patterns_in_them_mean_nothing() -> None:
    found = suggested(mount("/work/[a]*"))
    assert effect(found, mount("/work/[a]*")) is Effect.ALLOW
    assert effect(found, mount("/work/a1")) is Effect.ASK


def test_many_paths_are_covered_by_the_folder_they_share() -> None:
    found = suggested(*(mount(f"/work/data/{number}") for number in range(6)))
    assert [rule["target"] for rule in found.rules] == [{"path": "/work/data/*"}]
    assert effect(found, mount("/work/other")) is Effect.ASK


def test_a_request_without_anything_to_hold_on_to_opens_no_whole_capability() -> None:
    found = suggested(mount())
    assert (found.rules, len(found.left)) == ([], 1)


def test_the_draft_keeps_what_was_written_and_tests_what_it_allows() -> None:
    found = suggested(run("npm ci"), run("npm ci --prefer-offline"))
    assert found.source.startswith(POLICY.rstrip())
    document = parse_document(found.source)
    assert [test.expect for test in document.tests] == ["allow", "allow"]
    assert document.rules.allow[0].metadata == {"review_by": "2027-01-01"}


def test_what_is_allowed_already_needs_no_rule() -> None:
    first = suggested(run("npm ci"))
    again = suggest(first.source, [run("npm ci")], names=["x"], review_by="2027-01-01")
    assert (again.rules, len(again.covered)) == ([], 1)


def test_a_name_that_is_taken_gets_a_number() -> None:
    first = suggested(run("npm ci"))
    host = run("npm ci", surface="host")
    again = suggest(first.source, [host], names=["x"], review_by="2027-01-01")
    assert [rule["rule_id"] for rule in again.rules] == ["allow_npm_ci_2"]
