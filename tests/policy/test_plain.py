"""The short way for simple lines gives what the grammar gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.policy.commands.parse import read_script, read_with_grammar
from approvals.policy.commands.plain import plain_chain

WORDS = (
    "git ls -la a=b == = += x+=1 if then in time export let 1 2 - -- ^ % @ + . : / echo test 0x1 "
    "func do case local a:b -1 +1 function until && || ; | & 'x;(y' '' \"\" \"{a}[b]~?<>\" '!#%&*' "
    "sudo env sh -c user@example.org"
).split(" ")
LINES = st.one_of(
    st.lists(st.sampled_from([*WORDS, '"a b"', "'a b'", ""]), max_size=7).map(" ".join),
    st.text(alphabet="aA0_./@%+,:^-= ;|&'\"(!#*{~[", max_size=12),
)


@settings(max_examples=2_000, deadline=None)
@given(LINES)
def test_a_line_it_takes_reads_as_the_grammar_reads_it(script: str) -> None:
    if plain_chain(script) is not None:
        assert read_script(script) == read_with_grammar(script)


@pytest.mark.parametrize(
    "script",
    ["git status", "cd src && make; make test | tail -5", "grep -r 'a b' .", 'git commit -m "x y"'],
)
def test_the_lines_it_is_for_go_that_way(script: str) -> None:
    assert plain_chain(script) is not None


@pytest.mark.parametrize(
    "script", ["A=1 ls", "ls > x", "echo $x", "ls &", "time ls", "- a=b ls", "a\nb", "echo a''b"]
)
def test_anything_else_is_left_to_the_grammar(script: str) -> None:
    assert plain_chain(script) is None
