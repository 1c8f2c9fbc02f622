"""Globs: the shell's meaning, and no pattern that takes long."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.globs import compile_glob


@given(st.text("ab*?[]!-./\n", max_size=12), st.text("ab-.[]!/\n", max_size=12))
def test_a_pattern_matches_what_the_shell_would(pattern: str, text: str) -> None:
    assert compile_glob(pattern)(text) is fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    "pattern", ["*a" * 400 + "b", "*?" * 400 + "b", "[ab]*" * 200 + "c", "*" * 1_000 + "b"]
)
def test_pathological_patterns_take_bounded_time(pattern: str) -> None:
    match = compile_glob(pattern)
    started = time.perf_counter()
    assert match("a" * 20_000) is False
    assert time.perf_counter() - started < 5
