"""What is hidden of an environment, and that a change sent back with it hidden keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from sandboxes.secrecy import HIDDEN, hidden, revealed

MANIFEST = {
    "image": "python",
    "environment": {"plain": {"API_TOKEN": "s3cret", "PLAIN": "yes"}, "secret_refs": ["API_TOKEN"]},
    "resources": {"memory": "1g", "cpu": 2},
}
OPTIONS = {"token": "s3cret", "headers": {"X-Team": "harbour"}, "max_output_bytes": 10, "empty": ""}


def test_only_what_is_secret_is_hidden() -> None:
    shown = hidden(MANIFEST)
    assert shown["environment"]["plain"] == {"API_TOKEN": HIDDEN, "PLAIN": "yes"}
    assert shown["environment"]["secret_refs"] == ["API_TOKEN"]
    assert hidden(OPTIONS, {"headers"}) == OPTIONS | {
        "token": HIDDEN,
        "headers": {"X-Team": HIDDEN},
    }


@pytest.mark.parametrize("kept", [MANIFEST, OPTIONS, {}])
def test_what_was_hidden_comes_back(kept: dict[str, Any]) -> None:
    assert revealed(hidden(kept, {"headers"}), kept) == kept


def test_a_secret_comes_back_in_its_own_place_only() -> None:
    moved = {"environment": {"plain": {"OTHER": HIDDEN}}, "image": HIDDEN}
    assert revealed(moved, MANIFEST) == {
        "environment": {"plain": {"OTHER": None}},
        "image": "python",
    }
    new = {"environment": {"plain": {"API_TOKEN": "new"}}}
    assert revealed(new, MANIFEST) == new
