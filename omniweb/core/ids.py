"""UUIDv7 keys and the readable references made from them.

A reference is a prefix that says what it is, an underscore and the key in
Crockford's base32: `run_01k9x2tq7hf8k3m5n7p9r1s3t5`.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)}
_LENGTH = 26


def uuid7() -> uuid.UUID:
    """Return a new time-ordered key (RFC 9562): milliseconds, 4096ths of one, 62 random bits.

    Without the fractions, what is done within one millisecond would be listed in any order.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    value = milliseconds << 80 | 0x7 << 76 | (rest * 4096 // 1_000_000) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) & (1 << 62) - 1
    return uuid.UUID(int=value)


def first_key(moment: datetime) -> uuid.UUID:
    """Return the smallest key of a moment: rows from then on have a key at least this large."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)


def ref(prefix: str, key: uuid.UUID) -> str:
    """Return the readable reference of a key."""
    value = key.int
    letters = []
    for _ in range(_LENGTH):
        letters.append(ALPHABET[value & 31])
        value >>= 5
    return f"{prefix}_{''.join(reversed(letters))}"


def parse_ref(prefix: str, text: str) -> uuid.UUID | None:
    """Return the key a reference stands for, or None when it is not one of this kind."""
    head, _, letters = text.partition("_")
    if head != prefix or len(letters) != _LENGTH:
        return None
    value = 0
    for letter in letters:
        if letter not in _VALUES:
            return None
        value = value << 5 | _VALUES[letter]
    return uuid.UUID(int=value) if value < 1 << 128 else None
