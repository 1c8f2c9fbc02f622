"""Secrets are masked before anything is hashed, stored or shown.

Two things are masked: values this process knows to be secret, wherever they
occur and also in base64 or URL-encoded form; and text that looks like a
credential (`patterns.py`). Every expression is bounded, so time is linear in
the length of the text.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from django.conf import settings

from trajectories.patterns import (
    FLAG_BEFORE_SECRET,
    KEY_BEGIN,
    KEY_END,
    MASK,
    MAX_MATCH,
    is_plain,
    is_secret_name,
    mask_patterns,
    pattern_spans,
)

# Shorter values would mask ordinary words.
MIN_KNOWN = 12
MIN_GIVEN = 6

# The longest unfinished line a stream keeps waiting for its end.
MAX_HELD = 8 * MAX_MATCH

_registered: set[str] = set()
_written = json.JSONEncoder(ensure_ascii=False, default=str).encode


def secret_register(value: str) -> None:
    """Let every redactor of this process know a secret, such as a decrypted credential."""
    if len(value) >= MIN_GIVEN:
        _registered.add(value)
        _standard.cache_clear()


def redactor(known: Iterable[str] = ()) -> Redactor:
    """Return the redactor of this process, with the secrets of one run added."""
    given = frozenset(value for value in known if len(value) >= MIN_GIVEN)
    return Redactor(known=[*_standard()._known, *given]) if given else _standard()


@lru_cache(maxsize=1)
def _standard() -> Redactor:
    return Redactor(known=[*_server_secrets(), *_registered])


def _server_secrets() -> set[str]:
    secrets = {str(settings.SECRET_KEY)}
    for name, value in os.environ.items():
        if is_secret_name(name) and not _is_plain(value):
            secrets.add(value)
        if name.endswith("_URL") and (password := _url_password(value)):
            secrets.add(password)
    return {secret for secret in secrets if len(secret) >= MIN_KNOWN}


def _is_plain(value: str) -> bool:
    # A variable such as DB_PASSWORD_FILE's twin may hold a path or a number, which is no secret.
    return value.startswith("/") or value.replace(".", "", 1).isdigit()


def _url_password(value: str) -> str | None:
    try:
        return urlsplit(value).password
    except ValueError:
        return None


class Redactor:
    """Masks secrets in text, in JSON data and, by `stream`, in bytes as they come."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = tuple(dict.fromkeys(known))
        forms = {form for value in self._known for form in _forms(value)}
        # Longest first: a secret that contains another is masked whole.
        self._literals = sorted(forms, key=lambda form: (-len(form), form))
        self._in_json = [encode_basestring(form)[1:-1] for form in self._literals]

    def text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        for literal in self._literals:
            if literal in text:
                text = text.replace(literal, MASK)
        return mask_patterns(text)

    def value(self, value: Any) -> Any:
        """Return JSON data with secrets masked in all texts, keys and under secret names."""
        # Most data has nothing to mask, and looking once through all of it is cheap.
        whole = _written(value)
        if is_plain(whole) and not any(literal in whole for literal in self._in_json):
            return value
        return self._masked(value)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._under(str(key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return self._items(value)
        return value

    def _under(self, name: str, value: Any) -> Any:
        is_empty = value is None or isinstance(value, bool) or value in ("", [], {})
        return MASK if is_secret_name(name) and not is_empty else self._masked(value)

    def _items(self, items: Iterable[Any]) -> list[Any]:
        # In an argv, `--password` and its value are two items.
        clean: list[Any] = []
        is_next_secret = False
        for item in items:
            is_text = isinstance(item, str)
            clean.append(MASK if is_next_secret and is_text else self._masked(item))
            is_next_secret = is_text and bool(FLAG_BEFORE_SECRET.fullmatch(item))
        return clean

    def stream(self) -> RedactingStream:
        """Return a new stream with this redactor's secrets."""
        return RedactingStream(self)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the secrets of a text are."""
        found = pattern_spans(text)
        for literal in self._literals:
            start = text.find(literal)
            while start >= 0:
                found.append((start, start + len(literal)))
                start = text.find(literal, start + 1)
        return found


class RedactingStream:
    """Masks secrets in bytes that come in pieces, wherever the pieces are cut.

    No secret spans a line, so whole lines pass at once and only an unfinished one is held, up to
    MAX_HELD bytes. A private key, the exception, is masked from its first line to its last.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._is_in_key = False

    def feed(self, data: bytes) -> bytes:
        """Take a piece; return what can be passed on."""
        # Latin-1 maps each byte to one character: any output survives, whatever its encoding.
        self._held += data.decode("latin-1")
        cut = max(self._held.rfind("\n"), self._held.rfind("\r")) + 1
        if len(self._held) - cut > MAX_HELD:
            cut = self._safe_cut()
        return self._pass(cut)

    def close(self) -> bytes:
        """Return the rest."""
        return self._pass(len(self._held))

    def _safe_cut(self) -> int:
        # Whatever begins before the last MAX_MATCH characters is seen whole; cut beside it.
        cut = len(self._held) - MAX_MATCH
        straddling = [a for a, b in self._redactor.spans(self._held) if a < cut < b]
        return min(straddling, default=cut) or cut

    def _pass(self, cut: int) -> bytes:
        text, self._held = self._held[:cut], self._held[cut:]
        if self._is_in_key:
            end = KEY_END.search(text)
            if end is None:
                return b""
            text = text[end.end() :]
            self._is_in_key = False
        for begin in KEY_BEGIN.finditer(text):
            self._is_in_key = KEY_END.search(text, begin.end()) is None
        return self._redactor.text(text).encode("latin-1")


def _forms(value: str) -> set[str]:
    """Return every way a secret may be written: itself, encoded, and as a stream sees it."""
    pieces = [value, *value.splitlines()] if "\n" in value or "\r" in value else [value]
    lines = {
        piece[start : start + MAX_MATCH]
        for piece in pieces
        for start in range(0, len(piece), MAX_MATCH)
    }
    forms = set(lines)
    for line in lines:
        raw = line.encode("utf-8", "surrogatepass")
        forms |= {raw.decode("latin-1"), quote(line, safe=""), quote_plus(line)} if raw else set()
        forms |= _base64_forms(raw)
    return {form for form in forms if len(form) >= MIN_GIVEN}


def _base64_forms(raw: bytes) -> set[str]:
    """Return the parts of a secret's base64 that do not depend on what surrounds it."""
    forms = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode()
        # The first letters carry bits of what is in front, the last of what comes after.
        start = -(-before * 8 // 6)
        end = (before + len(raw)) * 8 // 6
        forms |= {encoded[start:end], encoded[start:end].translate(_URLSAFE)}
    return {form for form in forms if len(form) >= MIN_KNOWN}


_URLSAFE = str.maketrans("+/", "-_")
