"""What an agent wrote is shown as it is, and nothing in it can hide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniweb.core.text import ascii_host, hides, segments, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("npm ci && npm test", "npm ci && npm test"),
        ("über 例え ✓", "über 例え ✓"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("rm\u200b -rf", r"rm\u200b -rf"),
        ("a\u00a0b", r"a\xa0b"),
        ("\ud800", r"\ud800"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("blank\u3164", r"blank\u3164"),
        ("x\ufe0f", r"x\ufe0f"),
        ("one\rtwo", r"one\rtwo"),
        ("nul\x00", r"nul\x00"),
    ],
)
def test_characters_that_hide_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_breaks_and_tabs_stay_unless_one_line_is_wanted() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible("a\n\tb", keep="") == r"a\n\tb"


def test_an_escape_is_told_apart_from_the_same_letters_written_out() -> None:
    assert list(segments("\\x1b\x1b")) == [(False, "\\x1b"), (True, "\\x1b")]


@given(st.text(alphabet=st.characters(codec=None, categories=None)))
def test_whatever_is_written_nothing_hidden_remains(text: str) -> None:
    assert not any(hides(character) for character in visible(text, keep=""))


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_never_changed(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("packages.example.org", "packages.example.org"),
        ("*.Files.Example.org:443", "*.files.example.org:443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("ex\u0430mple.org", "xn--exmple-4nf.org"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("\uff45xample.org", "example.org"),
        ("[::1]:8080", "[::1]:8080"),
        ("fd00::1", "fd00::1"),
        ("bad\x1b.example", r"bad\x1b.example"),
        ("\ud800.example", r"\ud800.example"),
    ],
)
def test_hosts_are_shown_in_their_ascii_form(host: str, shown: str) -> None:
    assert ascii_host(host) == shown
