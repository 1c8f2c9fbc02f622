r"""Terminal output as HTML: colours from an allowlist, everything else inert and visible.

Only SGR sequences (`ESC [ … m`) mean anything here, and only as classes of `static/css/runs.css`.
Moving the cursor, clearing, titles, links and whatever else a terminal would obey is shown as
text, its control characters as escapes. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from omniweb.core.text import segments

_SGR = re.compile(r"\x1b\[([0-9;:]{0,64})m")
_BLACK, _WHITE = 0, 15

# SGR code → (attribute of _Style, value).
_SWITCHES: dict[int, tuple[str, bool]] = {
    1: ("bold", True), 2: ("dim", True), 3: ("italic", True), 4: ("underline", True),
    9: ("strike", True), 21: ("underline", True), 23: ("italic", False),
    24: ("underline", False), 29: ("strike", False),
}  # fmt: skip


@dataclass
class _Style:
    fg: int | None = None
    bg: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False

    def classes(self) -> str:
        names = [f"ansi-fg-{self.fg}"] if self.fg is not None else []
        names += [f"ansi-bg-{self.bg}"] if self.bg is not None else []
        switches = ("bold", "dim", "italic", "underline", "strike")
        return " ".join([*names, *(f"ansi-{name}" for name in switches if getattr(self, name))])


def ansi_html(text: str) -> str:
    """Return the output of a command as HTML that cannot do anything."""
    style = _Style()
    html = []
    start = 0
    text = text.replace("\r\n", "\n")
    for match in _SGR.finditer(text):
        html.append(_run(text[start : match.start()], style))
        style = _applied(style, match[1])
        start = match.end()
    html.append(_run(text[start:], style))
    return "".join(html)


def plain_text(text: str) -> str:
    """Return the output without its colours, all else unchanged."""
    return _SGR.sub("", text)


def _run(text: str, style: _Style) -> str:
    if not text:
        return ""
    pieces = (
        f'<span class="esc">{escape(piece)}</span>' if is_escape else escape(piece)
        for is_escape, piece in segments(text)
    )
    inner = "".join(pieces)
    classes = style.classes()
    return f'<span class="{classes}">{inner}</span>' if classes else inner


def _applied(style: _Style, parameters: str) -> _Style:
    # An empty parameter is zero; so is a number no terminal knows.
    codes = iter([int(code) if 0 < len(code) < 4 else 0 for code in re.split("[;:]", parameters)])
    for code in codes:
        if code == 0:
            style = _Style()
        elif code == 22:
            style.bold = style.dim = False
        elif code in _SWITCHES:
            name, value = _SWITCHES[code]
            setattr(style, name, value)
        else:
            _colour(style, code, codes)
    return style


def _colour(style: _Style, code: int, rest: Iterator[int]) -> None:
    is_background = code // 10 in (4, 10)
    last = code % 10
    match code // 10:
        case 3 | 4 if last == 8:
            colour = _extended(rest)
        case 3 | 4:
            colour = last if last < 8 else None
        case 9 | 10:
            colour = last + 8 if last < 8 else None
        case _:
            return
    if is_background:
        style.bg = colour
    else:
        style.fg = colour


def _extended(rest: Iterator[int]) -> int | None:
    """Read `5;n` or `2;r;g;b` and return the nearest of the sixteen colours."""
    match next(rest, 0):
        case 5:
            return _indexed(next(rest, 0))
        case 2:
            red, green, blue = next(rest, 0), next(rest, 0), next(rest, 0)
            return _nearest(red, green, blue)
        case _:
            return None


def _indexed(index: int) -> int | None:
    if index < 16:
        return index
    if index > 231:
        grey = (index - 232) * 10 + 8
        return _nearest(grey, grey, grey)
    cube = index - 16
    red, green, blue = cube // 36, cube // 6 % 6, cube % 6
    return _nearest(red * 51, green * 51, blue * 51)


def _nearest(red: int, green: int, blue: int) -> int | None:
    strongest = max(red, green, blue)
    if strongest < 64:
        return _BLACK
    # Grey and white are what text has anyway.
    if min(red, green, blue) > strongest * 0.75:
        return _WHITE if strongest > 192 else 7
    half = strongest * 0.6
    base = (red > half) | (green > half) << 1 | (blue > half) << 2
    return base + 8 if strongest > 192 else base
