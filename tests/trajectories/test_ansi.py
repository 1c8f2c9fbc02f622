"""Terminal output: colours of the allowlist, nothing else with any effect."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajectories.viewer.ansi import ansi_html, plain_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[32mok\x1b[0m.", '<span class="ansi-fg-2">ok</span>.'),
        ("\x1b[1;31mno\x1b[22m?", '<span class="ansi-fg-1 ansi-bold">no</span><span class="ansi-fg-1">?</span>'),
        ("\x1b[97;104mx\x1b[39;49my", '<span class="ansi-fg-15 ansi-bg-12">x</span>y'),
        ("\x1b[38;5;196mred", '<span class="ansi-fg-9">red</span>'),
        ("\x1b[38;2;0;200;0mgreen", '<span class="ansi-fg-10">green</span>'),
        ("\x1b[48;5;3mx\x1b[m", '<span class="ansi-bg-3">x</span>'),
        ("<b>&\"'", "&lt;b&gt;&amp;&quot;&#x27;"),
        ("a\r\nb", "a\nb"),
    ],
)  # fmt: skip
def test_colours_become_classes(text: str, expected: str) -> None:
    assert ansi_html(text) == expected


@pytest.mark.parametrize(
    "sequence",
    ["\x1b[2J", "\x1b[10;10H", "\x1b]0;title\x07", "\x1b]8;;https://x.example\x07", "\x1bc",
     "\x9b31m", "\x1b[38;5", "\u202e", "\x07", "\x1b[999999999m"[:-1]],
)  # fmt: skip
def test_everything_else_is_inert_and_visible(sequence: str) -> None:
    html = ansi_html(f"a{sequence}b")
    assert '<span class="esc">' in html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", html)
    assert "ansi-" not in html


def test_a_parameter_no_terminal_knows_changes_nothing() -> None:
    assert ansi_html("\x1b[73;8;5mx") == "x"


CODES = st.sampled_from(
    ["\x1b[", "m", "1", ";", ":", "38", "5", "2", "48", "0", "\x1b", "<", ">", "&", '"', "x", "\n",
     "</span>", "<script>", "\x1b[31m", "\x1b[0m"]
)  # fmt: skip
TAG = re.compile(r'<span class="((?:ansi-[a-z]+(?:-\d{1,2})? ?)+|esc)">|</span>')


@settings(deadline=None)
@given(st.lists(CODES | st.text(max_size=5), max_size=60).map("".join))
def test_no_output_makes_any_tag_but_our_spans(text: str) -> None:
    html = ansi_html(text)
    rest = TAG.sub("", html)
    assert "<" not in rest
    assert ">" not in rest
    assert '"' not in rest
    assert html.count("<span") == html.count("</span>")
    assert "\x1b" not in html


def test_colours_can_be_left_out() -> None:
    assert plain_text("\x1b[1;32mok\x1b[0m \x1b[2J") == "ok \x1b[2J"
