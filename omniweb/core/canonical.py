"""Canonical JSON (RFC 8785) and digests over it: equal values, equal bytes.

Numbers are limited to what serialises the same everywhere: integers within
2**53 and finite floats written the way ECMAScript writes them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

MAX_SAFE_INTEGER = 2**53 - 1
_WORDS = {None: "null", True: "true", False: "false"}


def canonical_json(value: Any) -> bytes:
    """Return the canonical bytes of a JSON value; raises ValueError for what JSON cannot say."""
    return _text(value).encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical form, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of raw bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str:
    # The plain types first: asking whether something is a Mapping or a Sequence is slow.
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return _object(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            raise ValueError(f"{value} is too large for canonical JSON")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return "[" + ",".join([_text(item) for item in value]) + "]"
    raise ValueError(f"{type(value).__name__} is not a JSON value")


def _object(value: Mapping[str, Any]) -> str:
    # RFC 8785 sorts by UTF-16 code units, which differs from code points above U+FFFF.
    keys = sorted(value, key=None if all(map(str.isascii, value)) else _utf_16)
    return "{" + ",".join([f"{encode_basestring(key)}:{_text(value[key])}" for key in keys]) + "}"


def _utf_16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError("canonical JSON has no infinities and no NaN")
    if value == 0:
        return "0"
    if 1e-6 <= abs(value) < 1e21:
        # repr gives the shortest digits that round-trip; Decimal writes them without an exponent.
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    mantissa, _, exponent = repr(value).partition("e")
    power = int(exponent)
    return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else ''}{power}"
