"""The lens shows every character of a command, and what the policy says of each part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.lens import Lens, command_lens
from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from approvals.services.decisions import command_text

POLICY = compile_policy(
    parse_document("""
name: lens
mode: interactive
rules:
  deny: [{rule_id: deny_rm, capability: process.exec, command: {program: rm}}]
  ask:
    - {rule_id: ask_push, capability: process.exec, command: {prefix: [git, push]}, reason: Why.}
  allow: [{rule_id: allow_basics, capability: process.exec, command: {program: [ls, cat, tee]}}]
""")
)


def lens_of(argv: Sequence[str]) -> Lens:
    request = AuthorityRequest(capability="process.exec", command=tuple(argv))
    parts = POLICY.evaluate(request).to_dict()["explanation"]["parts"]
    return command_lens(argv, command_text(argv), parts)


def script(text: str) -> Lens:
    return lens_of(["sh", "-c", text])


def marks(lens: Lens) -> list[tuple[str, str]]:
    return [(piece.text, piece.part.mark) for piece in lens.pieces if piece.part]


def test_each_part_carries_the_rule_that_covers_it() -> None:
    lens = script("ls -la && git push origin x | tee log; rm -rf build")
    assert marks(lens) == [
        ("ls -la", "ok"),
        ("git push origin x", "ask"),
        ("tee log", "ok"),
        ("rm -rf build", "no"),
    ]
    assert [part.verdict for part in lens.parts] == [
        "allowed · allow_basics",
        "asks · ask_push",
        "allowed · allow_basics",
        "denied · deny_rm",
    ]


def test_what_was_not_understood_is_marked_and_says_why() -> None:
    lens = script("ls $OUT")
    assert ("$OUT", "unk") in marks(lens)
    unread = next(part for part in lens.parts if part.effect == "unknown")
    assert (unread.verdict, unread.why) == ("not understood", "a variable")
    assert lens.unread == 1


def test_a_command_that_no_rule_covers_is_not_taken_for_one_that_was_not_understood() -> None:
    part = script("git push; make all").parts[1]
    assert (part.text, part.effect, part.verdict) == ("make all", "uncovered", "no rule")


def test_an_allowed_part_does_not_hide_that_the_text_around_it_was_not_understood() -> None:
    lens = script("for PATH in x; do ls && git push; done")
    assert ("ls", "unk") in marks(lens)
    assert ("git push", "ask") in marks(lens)


def test_each_part_says_what_it_does() -> None:
    parts = script("(ls) && curl https://example.org/x > page").parts
    assert [part.does for part in parts] == [
        "a subshell: read in full: runs the commands inside",
        "lists files",
        "downloads from example.org; its output goes to page",
        "a redirect: writes a file",
    ]


def test_a_command_inside_a_wrapper_is_told_with_what_it_is_reached_through() -> None:
    part = next(part for part in script("sudo rm -rf /").parts if part.through)
    assert (part.text, part.through, part.effect) == ("rm -rf /", ("sudo",), "deny")


def test_words_without_a_shell_are_shown_quoted_as_they_would_be_typed() -> None:
    lens = lens_of(["git", "push", "two words"])
    assert marks(lens) == [("git push 'two words'", "ask")]
    assert lens.shell == ""


def test_the_shell_that_reads_a_script_is_named() -> None:
    assert script("ls").shell == "sh -c"
    lens = lens_of(["bash", "-lc", "git push; ls"])
    assert lens.shell == "bash -lc"
    assert ("git push", "ask") in marks(lens)


def test_a_position_that_a_masked_secret_has_moved_is_found_by_its_text() -> None:
    argv = ["sh", "-c", "ls token-of-many-letters; git push"]
    parts = POLICY.evaluate(
        AuthorityRequest(capability="process.exec", command=tuple(argv))
    ).to_dict()["explanation"]["parts"]
    masked = [word.replace("token-of-many-letters", "***") for word in argv]
    for part in parts:
        part["text"] = part["text"].replace("token-of-many-letters", "***")
    lens = command_lens(masked, command_text(masked), parts)
    assert marks(lens) == [("ls ***", "ok"), ("git push", "ask")]


def test_a_command_about_which_nothing_is_known_is_not_understood() -> None:
    lens = command_lens(["ls"], "ls", [])
    assert [part.effect for part in lens.parts] == ["unknown"]


@pytest.mark.parametrize("count", [4000])
def test_thousands_of_parts_are_cut_in_one_sweep(count: int) -> None:
    parts = [
        {"text": "a", "start": at * 2, "end": at * 2 + 1, "effect": "allow", "rule_id": "r"}
        for at in range(count)
    ]
    text = "a;" * count
    lens = command_lens(["sh", "-c", text], text, parts)
    assert len(lens.pieces) == 2 * count


@given(text=st.text(max_size=60), shell=st.booleans())
def test_no_character_is_ever_left_out(text: str, shell: bool) -> None:
    argv = ["sh", "-c", text] if shell else [text, "x"]
    lens = lens_of(argv)
    shown = "".join(piece.text for piece in lens.pieces)
    assert shown in (text, command_text(argv))
