"""What an allow rule must cover before a line is allowed, and what a refusing one could meet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policy.build import decide, policy, rule, shell

LS = rule("ls", command={"program": ["ls", "cat", "cd", "make"]})
PUSH = rule("push", command={"prefix": ["git", "push"]})


def effect(text: str, *allow: dict[str, Any]) -> str:
    return str(decide(policy(allow=[*allow]), shell(text)).effect)


def test_constructs_are_allowed_when_all_inside_them_is() -> None:
    decision = decide(policy("strict", allow=[LS]), shell("if cd src; then (ls && cat f) & fi"))
    assert (decision.effect, decision.matched_rules) == ("allow", ("ls",))
    assert effect("if cd src; then (ls && rm f) & fi", LS) == "ask"


def test_a_rule_without_a_command_proves_nothing() -> None:
    decision = decide(policy(deny=[PUSH], allow=[rule("all")]), shell("(ls)"))
    assert (decision.effect, decision.reason_code) == ("ask", "command_opaque")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("make > out/log", "allow"),
        ("make >> out/a/b 2>&1", "allow"),
        ("{ make; } > out/log", "allow"),
        ("make > log", "ask"),
        ("make > out/../log", "ask"),
        ("make > $OUT", "ask"),
        ("make > out/log; ls > x", "ask"),
        ("> log; make", "ask"),
    ],
)
def test_a_redirect_is_covered_by_a_rule_that_speaks_of_the_file(text: str, expected: str) -> None:
    assert (
        effect(text, rule("make", command={"program": "make", "writes": ["out/*"]}), LS) == expected
    )


def test_an_option_that_writes_is_covered_the_same_way() -> None:
    sort = rule("sort", command={"program": "sort", "writes": ["out/*"]})
    assert effect("sort -o out/x f", sort) == "allow"
    assert effect("sort -o x f", sort) == "ask"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CI=1 make", "allow"),
        ("CI=1; make", "allow"),
        ("env CI=1 make", "allow"),
        ("DEBUG=1 make", "ask"),
        ("PATH=. make", "ask"),
        ("env PATH=. make", "ask"),
    ],
)
def test_a_variable_is_covered_by_a_rule_that_speaks_of_it(text: str, expected: str) -> None:
    make = rule("make", command={"program": ["make", "env"], "env": ["CI", "PATH"]})
    assert effect(text, make) == expected


def test_an_option_that_runs_something_is_covered_by_a_rule_that_spells_it_out() -> None:
    spelled = rule("delete", command={"prefix": ["find", "tmp", "-delete"]})
    assert effect("find tmp -delete", spelled) == "allow"
    assert effect("find tmp -delete", rule("find", command={"program": "find"})) == "ask"


@pytest.mark.parametrize(
    "text", ["$X push", "git $X", "git *", '"$GIT" push', "xargs git", "$(echo git) push"]
)
def test_a_word_nobody_knows_could_be_the_one_that_is_denied(text: str) -> None:
    assert decide(policy("permissive", deny=[PUSH]), shell(text)).effect == "deny"


@pytest.mark.parametrize("text", ["echo $X", "git log $X", "git", "ls | xargs cat"])
def test_a_word_behind_the_prefix_does_not_make_a_line_denied(text: str) -> None:
    assert decide(policy("permissive", deny=[PUSH]), shell(text)).effect != "deny"


@pytest.mark.parametrize(
    "text",
    [
        "git -C x push",
        "git -c a=b push",
        "sort --compress-program='git push' f",
        "awk 'BEGIN{system(\"git push\")}'",
        "sed '1e git push' f",
        "tar cf x f --checkpoint-action=exec='git push'",
        "ls | xargs -I{} sh -c 'git push {}'",
        "find . -exec sh -c 'cd {} && git push' \\;",
        "ip netns exec x git push",
        "bash <<'E'\ngit push\nE",
        "ls; cat <<E; git push\nx\nE",
        "echo 'unterminated; git push",
        "trap 'git push' EXIT",
    ],
)
def test_a_denied_command_is_found_wherever_it_is_hidden(text: str) -> None:
    assert decide(policy("permissive", deny=[PUSH]), shell(text)).effect == "deny"


def test_what_was_read_in_full_is_no_mystery_in_the_explanation() -> None:
    proven = decide(policy(allow=[LS]), shell("(ls)")).explanation.parts
    assert [(part.effect, part.does) for part in proven] == [
        ("allow", "lists files"),
        ("allow", "a subshell: read in full: runs the commands inside"),
    ]
    held = decide(policy(allow=[LS]), shell("(rm x)")).explanation.parts
    assert [(part.effect, part.why) for part in held][1:] == [(None, "no rule speaks of it")]
