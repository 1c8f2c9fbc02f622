"""Keys and references."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniweb.core.ids import parse_ref, ref, uuid7


def test_keys_are_version_seven_and_sort_by_time() -> None:
    keys = [uuid7() for _ in range(100)]
    assert {key.version for key in keys} == {7}
    assert {key.variant for key in keys} == {uuid.RFC_4122}
    assert [key.int >> 80 for key in keys] == sorted(key.int >> 80 for key in keys)


def test_keys_of_one_millisecond_sort_by_which_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter(range(1_796_000_000_000_000_000, 1_796_000_000_001_000_000, 1_000))
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    keys = [uuid7() for _ in range(1000)]
    assert keys == sorted(keys)


@given(st.uuids())
def test_a_reference_leads_back_to_its_key(key: uuid.UUID) -> None:
    assert parse_ref("run", ref("run", key)) == key


@given(st.text(max_size=40))
def test_any_other_text_is_no_reference(text: str) -> None:
    key = parse_ref("run", text)
    assert key is None or ref("run", key) == text


def test_a_reference_of_another_kind_is_none_of_this() -> None:
    assert parse_ref("exe", ref("run", uuid7())) is None
