"""Text that agents wrote, made safe to read: nothing hides, nothing reorders, nothing deceives.

Escaping for HTML is the template's part; this module is about characters that a browser would
draw as nothing, as a blank, or in another order than they are stored.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Printable by Unicode's books, yet drawn as nothing or as a blank: combining grapheme joiner,
# Hangul fillers, Khmer inherent vowels, Mongolian selectors, Braille blank, variation selectors.
_BLANK = frozenset(
    map(
        chr,
        (
            0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, 0xFFA0,
            *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),
        ),
    )
)  # fmt: skip
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_SUSPECT = re.compile(r"[^\x20-\x7e]")
# What browsers and resolvers take for the dot between two labels of a host.
_DOTS = re.compile("[\u3002\uff0e\uff61]")


def natural(text: str) -> int | None:
    """Return the number that someone wrote in an address or a form, None for anything else.

    Of nine digits at most: larger ones count nothing here, and fit no column.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def escape_of(character: str) -> str:
    r"""Return the escape that names a character: `\x1b`, `\u202e`, `\U000e0041`, `\n`."""
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def hides(character: str) -> bool:
    """Return whether a reader could miss a character or mistake it for a plain space.

    True for control and format characters (bidirectional ones among them), blanks other than
    the space, lone surrogates, private and unassigned code points, and invisible marks.
    """
    return not character.isprintable() or character in _BLANK


def segments(text: str, *, keep: str = "\n\t") -> Iterator[tuple[bool, str]]:
    """Yield the text in order as (is an escape, piece); characters in `keep` stay as they are."""
    start = 0
    for match in _SUSPECT.finditer(text):
        character = match.group()
        if character in keep or not hides(character):
            continue
        if match.start() > start:
            yield False, text[start : match.start()]
        yield True, escape_of(character)
        start = match.end()
    if start < len(text):
        yield False, text[start:]


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Return the text with every character that could hide or reorder shown as an escape."""
    return "".join(piece for _, piece in segments(text, keep=keep))


def ascii_host(host: str) -> str:
    """Return a host as resolvers see it: lower case, with other scripts as `xn--` labels.

    Wildcards, ports and addresses stay; look-alike letters of another script stand out.
    """
    name, colon, port = host.rpartition(":")
    if not (colon and port.isascii() and port.isdigit()) or ":" in name:
        name, colon, port = host, "", ""
    labels = unicodedata.normalize("NFKC", _DOTS.sub(".", name)).lower().split(".")
    return visible(".".join(map(_ascii_label, labels)) + colon + port, keep="")


def _ascii_label(label: str) -> str:
    # A hidden character says more as an escape than folded into punycode.
    if label.isascii() or any(map(hides, label)):
        return label
    return "xn--" + label.encode("punycode").decode("ascii")
