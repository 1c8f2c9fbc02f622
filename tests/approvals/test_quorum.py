"""Votes in, outcome out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from approvals.quorum import Outcome, tally

VERDICTS = st.lists(st.sampled_from(["approve", "reject"]), max_size=6)


def test_one_approval_is_enough_where_one_is_needed() -> None:
    assert tally(["approve"], 1) is Outcome.APPROVED


def test_without_votes_it_is_open_even_where_none_would_be_needed() -> None:
    assert tally([], 0) is Outcome.OPEN


@given(VERDICTS, st.integers(1, 4))
def test_a_rejection_ends_it_and_nothing_but_enough_approvals_carry_it(
    verdicts: list[str], needed: int
) -> None:
    outcome = tally(verdicts, needed)
    if "reject" in verdicts:
        assert outcome is Outcome.REJECTED
    else:
        assert (outcome is Outcome.APPROVED) == (len(verdicts) >= needed)
