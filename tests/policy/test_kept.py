"""Kept tests, and the check of a text as a whole."""

from __future__ import annotations

import pytest

from approvals.policy.check import activation_problems, check_source
from approvals.policy.decision import AuthorityRequest, Effect, Target
from approvals.policy.kept import request_words

TESTED = """\
name: tested
mode: strict
rules:
  ask:
    - rule_id: ask_push
      capability: process.exec
      command: {prefix: [git, push]}
      reason: Publishing needs a person.
tests:
  - request: {capability: process.exec, command: [git, push]}
    expect: ask
  - name: forced pushes never go through
    request: {capability: process.exec, command: [sh, -c, git push -f]}
    expect: deny
"""


def test_a_kept_test_says_what_was_expected_what_is_decided_and_why() -> None:
    held, failed = check_source(TESTED).tests
    assert (held.holds, held.name) == (True, "git push")
    assert not failed.holds
    assert (failed.expected, failed.decided, failed.line) == (Effect.DENY, Effect.ASK, 12)
    assert failed.why == "Publishing needs a person. (ask_push)"


def test_a_text_whose_tests_fail_may_be_saved_but_not_activated() -> None:
    check = check_source(TESTED)
    assert not check.problems
    assert not check.may_activate
    assert check.to_dict()["may_be_saved"] is True
    assert check_source(TESTED.replace("expect: deny", "expect: ask")).may_activate


def test_a_failing_test_keeps_a_text_from_becoming_active_and_is_named() -> None:
    (problem,) = activation_problems(TESTED)
    assert (problem.line, problem.path) == (12, "tests[1]")
    assert "'forced pushes never go through' expects deny" in problem.message


def test_a_text_that_cannot_be_read_cannot_be_activated() -> None:
    assert activation_problems("rules: [") != ()
    check = check_source("rules: [")
    assert check.document is None
    assert not check.may_activate


def test_a_request_of_a_kept_test_is_checked_like_any_other() -> None:
    (problem,) = check_source(TESTED.replace("-c, git push -f", "-c, 7")).problems
    assert (problem.path, problem.line) == ("tests[1].request.command", 13)


def test_a_policy_carries_a_bounded_number_of_tests() -> None:
    many = "\n".join(["  - {request: {capability: secret.use}, expect: deny}"] * 501)
    (problem,) = check_source(f"name: a\ntests:\n{many}\n").problems
    assert problem.message == "at most 500 kept tests are run"


def test_a_policy_carries_a_bounded_amount_of_commands() -> None:
    long = (
        f"  - {{request: {{capability: process.exec, command: [{'x' * 60_000}]}}, expect: ask}}\n"
    )
    assert not check_source(f"name: a\ntests:\n{long}").problems
    (problem,) = check_source(f"name: a\ntests:\n{long * 2}").problems
    assert "characters" in problem.message


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (AuthorityRequest("process.exec", command=("sh", "-c", "ls; id")), "ls; id"),
        (AuthorityRequest("process.exec", command=("git", "push")), "git push"),
        (AuthorityRequest("secret.use", target=Target(resource="token")), "secret.use token"),
        (AuthorityRequest("network.http.get", target=None, host="a.example"),
         "network.http.get a.example"),
        (AuthorityRequest("code.run"), "code.run"),
    ],
)  # fmt: skip
def test_a_test_without_a_name_is_called_by_its_request(
    request_: AuthorityRequest, words: str
) -> None:
    assert request_words(request_) == words
