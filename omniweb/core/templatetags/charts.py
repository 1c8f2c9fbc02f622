"""Small charts as inline SVG: shapes by attribute, colours by class, never an inline style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

_WIDTH, _HEIGHT = 120, 24
_BAR, _GAP, _TALL = 8, 2, 64


def sparkline(values: Sequence[float], label: str = "") -> SafeString:
    """Return a line through the values, scaled from zero to the largest of them."""
    if not values:
        return mark_safe("")
    top = max(*values, 0) or 1
    step = _WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{index * step:.1f},{_HEIGHT - 1 - max(value, 0) / top * (_HEIGHT - 2):.1f}"
        for index, value in enumerate(values)
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><polyline points="{}" vector-effect="non-scaling-stroke"/></svg>',
        _WIDTH,
        _HEIGHT,
        label,
        points,
    )


def bars(rows: Sequence[tuple[str, Mapping[str, float]]], label: str = "") -> SafeString:
    """Return stacked bars: each row is a caption and its amount per tone, drawn from below.

    `[("14:00", {"good": 12, "wait": 3, "bad": 1}), …]`. The caption and the amounts are in the
    title of each bar, so that a pointer and a screen reader get the numbers.
    """
    top = max((sum(amounts.values()) for _, amounts in rows), default=0) or 1
    columns = mark_safe(  # noqa: S308  # joined from escaped pieces
        "".join(_column(index, row, _TALL / top) for index, row in enumerate(rows))
    )
    return format_html(
        '<svg class="bars" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
        ' aria-label="{}">{}</svg>',
        max(len(rows) * (_BAR + _GAP) - _GAP, 1),
        _TALL,
        label,
        columns,
    )


def _column(index: int, row: tuple[str, Mapping[str, float]], scale: float) -> SafeString:
    caption, amounts = row
    pieces, floor = [], float(_TALL)
    for tone, amount in amounts.items():
        if amount <= 0:
            continue
        floor -= amount * scale
        pieces.append((tone, index * (_BAR + _GAP), f"{floor:.1f}", f"{amount * scale:.1f}"))
    words = ", ".join(f"{amount:g} {tone}" for tone, amount in amounts.items() if amount)
    rects = format_html_join("", '<rect class="{}" x="{}" y="{}" width="8" height="{}"/>', pieces)
    return format_html("<g><title>{}: {}</title>{}</g>", caption, words or "none", rects)
