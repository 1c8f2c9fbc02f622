"""The tags that pages are built from."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django import forms
from django.template import engines
from django.test import RequestFactory
from django.urls import path
from django.utils.safestring import mark_safe

from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.templatetags.states import LOOKS, look_of
from omniweb.core.templatetags.ui import age_words, duration, short_ref, size_words

NOW = datetime(2026, 11, 30, 14, 2, 11, tzinfo=UTC)
STATES = """
    opening active waiting finishing succeeded failed cancelled abandoned refused
    asked denied expired rejected stale queued starting running finished timed_out unknown
    open approved withdrawn superseded spent
    intended provisioning ready asleep terminating terminated lost
    enrolling online offline revoked
    allow ask deny
""".split()

urlpatterns = [
    path("", lambda request: None, name="overview"),  # type: ignore[arg-type,return-value]
    path("inbox", lambda request: None, name="inbox"),  # type: ignore[arg-type,return-value]
]


def rendered(source: str, **context: Any) -> str:
    return engines["django"].from_string(source).render(context).strip()


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_tone_an_icon_and_a_word(state: str) -> None:
    look = LOOKS[state]
    html = rendered("{% state_pill state %}", state=state)
    assert f'class="pill {look.tone}"' in html
    assert "<svg" in html
    assert look.word in html


def test_an_unheard_of_state_is_shown_as_not_understood() -> None:
    assert look_of("half_open") == ("unsure", "unsure", "Half open")


@time_machine.travel(NOW, tick=False)
def test_a_pill_can_say_how_long_a_state_has_lasted() -> None:
    html = rendered("{% state_pill 'open' since=at %}", at=NOW - timedelta(minutes=2))
    assert re.search(r"Waiting <time[^>]*data-when=\"age\"[^>]*>2 min</time>", html)


@pytest.mark.parametrize(
    ("form", "moment", "words"),
    [
        ("ago", NOW - timedelta(seconds=3), "3 s ago"),
        ("ago", NOW + timedelta(minutes=5), "in 5 min"),
        ("age", NOW - timedelta(hours=30), "30 h"),
        ("age", NOW - timedelta(days=12), "12 days"),
        ("left", NOW + timedelta(minutes=57, seconds=14), "57:14"),
        ("left", NOW - timedelta(seconds=1), "0:00"),
        ("left", NOW + timedelta(hours=3), "3 h"),
        ("clock", NOW, "14:02:11"),
        ("full", NOW, "30 Nov 2026, 14:02"),
    ],
)
@time_machine.travel(NOW, tick=False)
def test_times_are_words_with_the_exact_time_on_hover(
    form: str, moment: datetime, words: str
) -> None:
    html = rendered("{% when moment form %}", moment=moment, form=form)
    assert html.endswith(f">{words}</time>")
    assert f'title="{moment:%Y-%m-%d %H:%M:%S} UTC"' in html


def test_a_missing_time_is_a_dash() -> None:
    assert "—" in rendered("{% when moment %}", moment=None)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.12, "120 ms"), (48.2, "48.2 s"), (702, "11 min 42 s"), (11_100, "3 h 5 min"),
     (timedelta(days=2, hours=1), "2 d 1 h"), (None, "—")],
)  # fmt: skip
def test_durations_use_two_units_at_most(value: timedelta | float | None, words: str) -> None:
    assert duration(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (41_208, "41.2 kB"),
     (999_990, "1.0 MB"), (3_100_000_000, "3.1 GB"), (None, "—")],
)  # fmt: skip
def test_sizes_are_decimal(value: int | None, words: str) -> None:
    assert size_words(value) == words


def test_ages_never_read_as_negative() -> None:
    assert age_words(-61) == "1 min"


def test_text_of_an_agent_is_escaped_and_its_escapes_are_marked() -> None:
    html = rendered("{{ text|agent_text }}", text="<b>\u202e\\x1b\x1b\n")
    assert html == ('&lt;b&gt;<span class="esc">\\u202e</span>\\x1b<span class="esc">\\x1b</span>')


def test_text_of_an_agent_is_escaped_even_when_it_was_marked_as_safe() -> None:
    assert rendered("{{ text|agent_text }}", text=mark_safe("<img>")) == "&lt;img&gt;"


def test_one_line_of_an_agent_shows_its_line_breaks() -> None:
    assert rendered("{{ text|agent_line }}", text="a\nb") == 'a<span class="esc">\\n</span>b'


def test_json_is_indented_and_cannot_hide_anything() -> None:
    html = rendered("{{ data|json_pretty }}", data={"argv": ["<rm>", "\u202e"]})
    assert "&lt;rm&gt;" in html
    assert '<span class="esc">\\u202e</span>' in html
    assert "\n  &quot;argv&quot;" in html


def test_hosts_are_shown_in_ascii() -> None:
    assert rendered("{{ 'bücher.example'|host }}") == "xn--bcher-kva.example"


def test_references_are_short_and_copy_whole() -> None:
    whole = "run_01k9x2tq7hf8k3m5n7p9r1s3t5"
    assert short_ref(whole) == "run_…p9r1s3t5"
    assert short_ref("plain") == "plain"
    html = rendered("{% ref whole %}", whole=whole)
    assert f'data-copy="{whole}"' in html
    assert f'aria-label="Copy {whole}"' in html


def test_icons_are_hidden_from_screen_readers_unless_they_have_a_label() -> None:
    assert 'aria-hidden="true"' in rendered("{% icon 'inbox' %}")
    assert 'aria-label="Inbox"' in rendered("{% icon 'inbox' 'Inbox' %}")


def test_charts_say_their_numbers_and_carry_no_inline_style() -> None:
    line = rendered("{% sparkline values 'Waits' %}", values=[1, 0, 4])
    assert 'points="0.0,17.5 60.0,23.0 120.0,1.0"' in line
    rows = [("14:00", {"good": 3, "bad": 1}), ("15:00", {"good": 0})]
    chart = rendered("{% bars rows 'Decisions' %}", rows=rows)
    assert "<title>14:00: 3 good, 1 bad</title>" in chart
    assert "<title>15:00: none</title>" in chart
    assert "style" not in line + chart


def test_charts_without_data_are_empty_rather_than_broken() -> None:
    assert rendered("{% sparkline values %}", values=[]) == ""
    assert "<rect" not in rendered("{% bars rows %}", rows=[])


@pytest.mark.urls(__name__)
def test_the_navigation_marks_the_page_and_leaves_out_what_does_not_exist() -> None:
    request = RequestFactory().get("/inbox")
    source = "{% nav_link 'overview' 'Overview' 'overview' %}|{% nav_link 'inbox' 'Inbox' 'inbox' %}|{% nav_link 'runs' 'Runs' 'runs' %}"
    overview, inbox, runs = rendered(source, request=request, inbox_count=7).split("|")
    assert "aria-current" not in overview
    assert 'href="/inbox" aria-current="page"' in inbox
    assert "7<" in inbox
    assert runs.strip() == ""


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "500"])
def test_error_pages_need_no_context_and_say_what_to_do_next(name: str) -> None:
    html = engines["django"].get_template(f"{name}.html").render()
    assert "<h1>" in html
    assert 'href="/"' in html
    assert 'href="/inbox"' in html


@pytest.mark.urls(__name__)
def test_an_error_of_the_tree_is_a_page_with_its_problems() -> None:
    error = InvalidInput("Two rules are wrong", problems=[Problem(message="bad <glob>", line=3)])
    html = engines["django"].get_template("errors/problem.html").render({"error": error})
    assert "Two rules are wrong" in html
    assert "line 3: bad &lt;glob&gt;" in html
    assert "422 invalid_input" in html


@pytest.mark.urls(__name__)
def test_an_error_of_the_tree_is_a_toast_for_a_part_of_a_page() -> None:
    toast = rendered('{% include "components/toast.html" %}', error=InvalidInput("No such rule"))
    assert 'role="alert"' in toast
    assert "No such rule" in toast


def test_a_field_ties_its_hint_and_its_errors_to_the_control() -> None:
    class Example(forms.Form):
        name = forms.CharField(help_text="Shown in the inbox.")

    html = rendered('{% include "components/form.html" %}', form=Example({}))
    assert 'for="id_name"' in html
    assert 'aria-describedby="id_name_helptext id_name_error"' in html
    assert 'aria-invalid="true"' in html
    assert 'id="id_name_error"' in html
