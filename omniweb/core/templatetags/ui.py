"""The tags and filters every page is built from; loaded into all templates.

icon pill state_pill        what a thing is and how it stands
when duration bytes         times, spans and sizes, exact on hover
agent_text agent_line host  what an agent wrote, escaped and with nothing hidden
short_ref ref json_pretty   ids with copy, and raw data
sparkline bars              charts
nav_link                    an entry of the frame's navigation
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.http import HttpRequest
from django.template import Context
from django.urls import NoReverseMatch, reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from omniweb.core import clock
from omniweb.core.templatetags.charts import bars, sparkline
from omniweb.core.templatetags.icons import SHAPES
from omniweb.core.templatetags.states import look_of
from omniweb.core.text import ascii_host, segments

register = template.Library()
register.simple_tag(sparkline)
register.simple_tag(bars)

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SHORT_LENGTH = 8
NOTHING = "—"


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """Draw an icon; without a label it is decoration and hidden from screen readers."""
    shape = mark_safe(SHAPES[name])  # noqa: S308  # our own constant
    if label:
        return format_html(
            '<svg class="i" viewBox="0 0 16 16" role="img" aria-label="{}">{}</svg>', label, shape
        )
    return format_html('<svg class="i" viewBox="0 0 16 16" aria-hidden="true">{}</svg>', shape)


@register.simple_tag
def pill(tone: str, text: str, icon_name: str = "") -> SafeString:
    """Return a word on its tone: good, wait, bad, unsure, busy or plain."""
    drawing = icon(icon_name) if icon_name else ""
    return format_html('<span class="pill {}">{}<span>{}</span></span>', tone, drawing, text)


@register.simple_tag
def state_pill(state: str, text: str = "", since: datetime | None = None) -> SafeString:
    """Return the pill of a state; `text` replaces its word, `since` adds how long it has lasted."""
    look = look_of(str(state))
    word: str | SafeString = text or look.word
    if since is not None:
        word = format_html("{} {}", word, when(since, "age"))
    return pill(look.tone, word, look.icon)


@register.simple_tag
def when(moment: datetime | None, form: str = "ago") -> SafeString:
    """Return a time that the page keeps current and shows in the reader's zone, UTC on hover.

    Forms: `ago` (2 min ago, in 5 min), `age` (2 min), `left` (57:14, counting down), `clock`
    (14:02:11) and `full` (30 Nov 2026, 14:02). Without a moment it is a dash.
    """
    if moment is None:
        return format_html('<span class="faint" aria-label="none">{}</span>', NOTHING)
    moment = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-when="{}" title="{}">{}</time>',
        moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        form,
        moment.strftime("%Y-%m-%d %H:%M:%S UTC"),
        _time_words(moment, form),
    )


def _time_words(moment: datetime, form: str) -> str:
    if form == "clock":
        return moment.strftime("%H:%M:%S")
    if form == "full":
        return f"{moment.day} {moment.strftime('%b %Y, %H:%M')}"
    seconds = (clock.now() - moment).total_seconds()
    if form == "left":
        minutes, rest = divmod(max(int(-seconds), 0), _MINUTE)
        return f"{minutes}:{rest:02d}" if minutes < _MINUTE else age_words(-seconds)
    if form == "age":
        return age_words(seconds)
    return f"{age_words(seconds)} ago" if seconds >= 0 else f"in {age_words(-seconds)}"


def age_words(seconds: float) -> str:
    """Return a span as people say it, in its largest unit: 3 s, 2 min, 5 h, 12 days."""
    seconds = abs(seconds)
    if seconds < _MINUTE:
        return f"{int(seconds)} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    if seconds < 2 * _DAY:
        return f"{int(seconds // _HOUR)} h"
    return f"{int(seconds // _DAY)} days"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """Return how long something took, from a timedelta or seconds: 120 ms, 48.2 s, 11 min 42 s."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min {int(seconds % _MINUTE)} s"
    if seconds < _DAY:
        return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"
    return f"{int(seconds // _DAY)} d {int(seconds % _DAY // _HOUR)} h"


@register.filter
def duration_ms(value: float | None) -> str:
    """Return how long something took, from milliseconds."""
    return duration(None if value is None else value / 1000)


@register.filter("bytes")
def size_words(value: int | None) -> str:
    """Return a size in decimal units: 812 bytes, 41.2 kB, 3.1 MB."""
    if value is None:
        return NOTHING
    if value < 1000:
        return "1 byte" if value == 1 else f"{value} bytes"
    size, unit = float(value), ""
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007  # the unit it stops at is used below
        size /= 1000
        if size < 999.95:
            break
    return f"{size:.1f} {unit}"


@register.filter
def agent_text(value: object) -> SafeString:
    """Return text an agent wrote, escaped, hidden characters shown as marked escapes."""
    return _shown(value, keep="\n\t")


@register.filter
def agent_line(value: object) -> SafeString:
    """Return text an agent wrote as one line: line breaks and tabs are shown as escapes too."""
    return _shown(value, keep="")


def _shown(value: object, *, keep: str) -> SafeString:
    # `escape`, unlike format_html, also escapes what someone has marked as safe.
    pieces = (
        format_html('<span class="esc">{}</span>', piece) if is_escape else escape(piece)
        for is_escape, piece in segments("" if value is None else str(value), keep=keep)
    )
    return mark_safe("".join(pieces))  # noqa: S308  # joined from escaped pieces


@register.filter
def host(value: object) -> str:
    """Return a host in its ASCII form, so that look-alike letters stand out."""
    return ascii_host(str(value))


@register.filter
def json_pretty(value: Any) -> SafeString:
    """Return data as indented JSON, safe to show even where an agent wrote parts of it."""
    return agent_text(json.dumps(value, indent=2, ensure_ascii=False, default=str))


@register.filter
def short_ref(value: str) -> str:
    """Return a reference short enough for a table: `run_…7r1s3t5a`.

    The end is kept because it is random; the beginning is the time, and alike for neighbours.
    """
    prefix, underscore, letters = str(value).partition("_")
    if not underscore or len(letters) <= _SHORT_LENGTH:
        return str(value)
    return f"{prefix}_…{letters[-_SHORT_LENGTH:]}"


@register.simple_tag
def ref(value: str) -> SafeString:
    """Return a reference, short, whole on hover, with a button that copies it."""
    return format_html(
        '<span class="ref"><code title="{0}">{1}</code>'
        '<button type="button" class="copy" data-copy="{0}" aria-label="Copy {0}">{2}</button></span>',
        value,
        short_ref(value),
        icon("copy"),
    )


@register.inclusion_tag("layout/nav_link.html", takes_context=True)
def nav_link(context: Context, name: str, text: str, icon_name: str) -> dict[str, Any]:
    """Draw an entry of the navigation, or nothing when no page has that url name."""
    href = _url_or_none(name)
    return {
        "name": name,
        "href": href,
        "text": text,
        "icon_name": icon_name,
        "here": href is not None and _is_here(context.get("request"), href),
        "inbox_count": context.get("inbox_count"),
        "inbox_count_url": _url_or_none("inbox_count"),
    }


def _url_or_none(name: str) -> str | None:
    try:
        return reverse(name)
    except NoReverseMatch:
        return None


def _is_here(request: HttpRequest | None, href: str) -> bool:
    if request is None:
        return False
    return request.path == href or (href != "/" and request.path.startswith(href.rstrip("/") + "/"))
