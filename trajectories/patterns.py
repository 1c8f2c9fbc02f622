"""What a credential looks like when nobody has said that it is one. Pure.

Every expression starts at a fixed word and repeats only single classes with an
upper bound, so none can backtrack over more than it has read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

MASK: Final = "[REDACTED]"

# No match is longer, counting the name in front of a value.
MAX_MATCH: Final = 8192
_N: Final = "{1,7900}"

_NAME: Final = (
    r"(?:token|secret|password|passwd|passphrase|credentials?|authorization|cookie"
    r"|(?:api|access|secret|private|signing|encryption|account|auth)[_.-]?key)"
)
# Where a word begins; the `m` that ends a colour sequence is not part of one.
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\x1b\[[0-9]m)|(?<=[0-9;\[][0-9]m))"
_SECRET_NAME: Final = re.compile(rf"{_NAME}\Z", re.IGNORECASE)

KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")

FLAG_BEFORE_SECRET: Final = re.compile(rf"--?(?:[a-z]{{1,20}}-){{0,4}}{_NAME}", re.IGNORECASE)

# What stands for a secret, or for none, and says nothing: `$TOKEN`, `${TOKEN}`, `null`.
_HARMLESS: Final = re.compile(
    r"(?:[A-Za-z]{1,20} )?\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
    r"|none|null|nil|true|false|undefined|unset",
    re.IGNORECASE,
)


class Pattern(NamedTuple):
    """An expression, the words without one of which it cannot match, and what to put instead."""

    words: tuple[str, ...]
    expression: re.Pattern[str]
    mask: Callable[[re.Match[str]], str]


def is_secret_name(name: str) -> bool:
    """Whether a value under this name is a credential.

    A whole word or a run-together ending counts (`token`, `accessToken`, `DB_PASSWORD`); a
    plural or a quantity does not (`tokens`, `token_count`).
    """
    return bool(_SECRET_NAME.search(name))


def is_plain(text: str) -> bool:
    """Whether a text can hold no credential and no secret name, as it has none of their words."""
    folded = text.casefold()
    return not any(word in folded for word in _WORDS)


def mask_patterns(text: str) -> str:
    """Return a text with everything masked that looks like a credential."""
    lowered = text.lower()
    for pattern in _PATTERNS:
        # Finding a word is far cheaper than trying an expression at each character.
        for word in pattern.words:
            if word in lowered:
                text = pattern.expression.sub(pattern.mask, text)
                break
    return text


def pattern_spans(text: str) -> list[tuple[int, int]]:
    """Return where the credentials of a text are."""
    return [match.span() for pattern in _PATTERNS for match in pattern.expression.finditer(text)]


def _whole(match: re.Match[str]) -> str:
    return MASK


def _value(match: re.Match[str]) -> str:
    value = match["value"]
    return match[0] if _HARMLESS.fullmatch(value) else _before(match) + MASK


def _assigned(match: re.Match[str]) -> str:
    """Mask what is assigned, unless it reads like code or prose.

    `password=x` is taken at its word. After a colon or a spaced `=`, an unquoted value needs a
    digit or some length: `token: string` is a declaration.
    """
    value, is_loose = match["value"], match["separator"] != "="
    is_bare = match["quote"] == ""
    if is_bare and is_loose and len(value) < 16 and not any(map(str.isdigit, value)):
        return match[0]
    return _value(match)


def _before(match: re.Match[str]) -> str:
    return match[0][: match.start("value") - match.start()]


def _compiled(expression: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII | flags)


_PATTERNS: Final = (
    Pattern(
        ("private key-----",),
        _compiled(rf"{KEY_BEGIN.pattern}.*?(?:{KEY_END.pattern}|\Z)", re.DOTALL),
        _whole,
    ),
    # Headers whose whole value is a credential, scheme and all.
    Pattern(
        ("authorization", "cookie"),
        _compiled(
            r"(?:authorization|cookie)[\"']?[ \t]{0,8}:[ \t]{0,8}\\{0,4}[\"']?"
            r"(?P<value>[^\s\"'\\][^\r\n\"'\\]{0,7900})",
            re.IGNORECASE,
        ),
        _value,
    ),
    Pattern(
        ("bearer", "basic"),
        _compiled(
            r"(?:bearer|basic)[ \t]{1,8}(?=[A-Za-z0-9._~+/-]{0,400}[0-9=])"
            r"(?P<value>[A-Za-z0-9._~+/=-]{12,7900})",
            re.IGNORECASE,
        ),
        _value,
    ),
    Pattern(
        ("token", "secret", "passw", "passphrase", "credential", "authorization", "cookie", "key"),
        _compiled(
            rf"{_NAME}(?:\\{{0,4}}[\"'])?(?P<separator>[ \t]{{0,8}}[:=][ \t]{{0,8}})"
            rf"(?:(?P<quote>\"(?=[^\"])|'(?=[^'])|\\{{1,4}}[\"'](?=[^\\])|(?=[^\s\"'&;\\=]))"
            rf"(?P<value>(?<=[^\\]\")(?:\\[^\r\n]|[^\"\\\r\n]){_N}"
            rf"|(?<=[^\\]')(?:\\[^\r\n]|[^'\\\r\n]){_N}"
            rf"|(?<=\\[\"'])[^\"'\\\r\n]{_N}"
            rf"|(?<![\"'])[^\s\"'&;]{_N}))",
            re.IGNORECASE,
        ),
        _assigned,
    ),
    Pattern(
        ("--",),
        _compiled(
            rf"--(?:[a-z]{{1,20}}-){{0,4}}{_NAME}[ \t]{{1,8}}[\"']?(?P<value>[^\s\"'&;|-][^\s\"'&;|]{{0,7900}})",
            re.IGNORECASE,
        ),
        _value,
    ),
    Pattern(
        ("://",),
        _compiled(r"://[^\s/:@\"']{0,256}:(?P<value>[^\s/@\"']{1,1024})(?=@)"),
        _value,
    ),
    # Links of our own that sign somebody in.
    Pattern(
        ("sign-in/link/", "password/reset/key/"),
        _compiled(r"(?:sign-in/link|password/reset/key)/(?P<value>[\w-]{8,200})"),
        _value,
    ),
    Pattern(
        ("omw_", "gh", "glpat-", "sk-", "sk_", "rk_", "akia", "asia", "xox", "aiza", "hf_", "npm_"),
        _compiled(
            r"(?:omw_[A-Za-z0-9_-]{20,200}"
            r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}"
            r"|glpat-[A-Za-z0-9_-]{16,255}"
            rf"|{_START}sk-(?=[A-Za-z_-]{{0,64}}[0-9])[A-Za-z0-9_-]{{16,300}}"
            r"|[sr]k_(?:live|test)_[A-Za-z0-9]{10,255}"
            rf"|{_START}A(?:KIA|SIA)[0-9A-Z]{{16}}(?![0-9A-Za-z])"
            r"|xox[abeoprs]-[A-Za-z0-9-]{10,255}|AIza[0-9A-Za-z_-]{35}"
            r"|hf_[A-Za-z0-9]{20,255}|npm_[A-Za-z0-9]{30,255})"
        ),
        _whole,
    ),
    Pattern(
        ("eyj",),
        _compiled(rf"{_START}eyJ[\w-]{{8,2600}}\.[\w-]{{8,2600}}\.[\w-]{{8,2600}}"),
        _whole,
    ),
)
_WORDS: Final = tuple(dict.fromkeys(word for pattern in _PATTERNS for word in pattern.words))
