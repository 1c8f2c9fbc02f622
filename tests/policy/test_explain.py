"""A decision tells its story: winner, losers, near misses, parts."""

from __future__ import annotations

from approvals.policy.decision import AuthorityRequest
from tests.policy.build import decide, policy, rule, shell

RM = rule("rm", command={"program": "rm"}, reason="Deleting is final.")
ALL = rule("all")


def test_the_winner_is_the_rule_whose_reason_is_shown() -> None:
    rules = [rule("quiet", "code.*"), rule("loud", "code.run", reason="Because.")]
    told = decide(policy(deny=rules), AuthorityRequest("code.run")).explanation
    assert told.winner is not None
    assert (told.winner.rule_id, told.winner.effect, told.winner.reason) == (
        "loud",
        "deny",
        "Because.",
    )
    assert [note.rule_id for note in told.matched] == ["quiet", "loud"]


def test_rules_that_matched_and_lost_say_to_whom() -> None:
    told = decide(policy(deny=[RM], ask=[rule("any")], allow=[ALL]), shell("rm x")).explanation
    assert [(note.rule_id, note.why) for note in told.lost] == [
        ("any", "lost to deny rule rm"),
        ("all", "lost to deny rule rm"),
    ]


def test_an_allow_that_lost_to_an_unreadable_command_says_so() -> None:
    told = decide(policy(deny=[RM], allow=[ALL]), shell("echo $X")).explanation
    assert [(note.rule_id, note.why) for note in told.lost] == [
        ("all", "lost to a command that could not be read")
    ]


def test_near_misses_name_the_first_thing_that_kept_them() -> None:
    document = policy(
        deny=[RM, rule("host", conditions={"execution_surface": "host", "method": "x"})],
        ask=[rule("elsewhere", "code.run")],
        allow=[rule("ls", command={"program": "ls"})],
    )
    told = decide(document, shell("ls && git push")).explanation
    assert [(note.rule_id, note.why) for note in told.near_misses] == [
        ("rm", "no command of the line begins with its words"),
        ("host", "wants execution_surface host"),
        ("ls", "does not cover `git push`"),
    ]


def test_the_mode_speaks_where_no_rule_matched() -> None:
    told = decide(policy("strict"), AuthorityRequest("code.run")).explanation
    assert told.winner is None
    assert told.mode_default == "Denied by strict policy: no rule matches this code.run request."


def test_each_part_of_a_command_says_what_covers_it_and_where_it_stands() -> None:
    text = "ls && sudo rm x > $OUT"
    told = decide(policy(deny=[RM], allow=[ALL]), shell(text)).explanation
    assert [
        (part.text, text[part.start : part.end], part.reached, part.effect, part.rule_id)
        for part in told.parts
    ] == [
        ("ls", "ls", (), "allow", "all"),
        ("sudo rm x", "sudo rm x", (), "allow", "all"),
        ("rm x", "sudo rm x", ("sudo",), "deny", "rm"),
        ("> $OUT", "> $OUT", (), None, None),
    ]
    assert told.parts[-1].why == "a redirect"
    assert told.to_dict()["parts"][-1]["effect"] == "unknown"


def test_near_misses_are_kept_to_what_a_page_can_show() -> None:
    rules = [rule(f"r{at}", conditions={"provider": "x"}) for at in range(300)]
    assert len(decide(policy(deny=rules), shell("ls")).explanation.near_misses) == 50
