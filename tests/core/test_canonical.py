"""Canonical JSON: the bytes every digest is taken over."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniweb.core.canonical import MAX_SAFE_INTEGER, canonical_json, digest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # The examples of RFC 8785, appendix B, and their like.
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (333333333.3333332, "333333333.3333332"),
        (-1.5e300, "-1.5e+300"),
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"\U0001f600": 1, "\ufb33": 2}, '{"\U0001f600":1,"\ufb33":2}'),
        ("\u20ac$\x0f\nA'B\"\\", '"\u20ac$\\u000f\\nA\'B\\"\\\\"'),
    ],
)
def test_values_are_written_the_one_way(value: object, text: str) -> None:
    assert canonical_json(value).decode() == text


@given(VALUES)
def test_what_is_written_reads_back_as_it_was(value: object) -> None:
    # Every number is a double (RFC 8785): large ones are written with their shortest digits.
    text = canonical_json(value).decode("utf-8", "surrogatepass")
    assert json.loads(text, parse_int=float) == value


@given(st.dictionaries(st.text(), st.integers(0, 9)))
def test_the_order_of_keys_changes_nothing(value: dict[str, int]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, {1, 2}, b"bytes"])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json(value)
