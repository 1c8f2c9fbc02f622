"""Characters that make a word look like another: invisible ones, and letters of other scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from approvals.policy.commands.line import Kind, Risk, Words, is_hidden

HIDDEN = "characters that cannot be seen"
LOOKALIKE = "an address with letters that can pass for others"

# An address as programs take it: with a scheme, behind an @, or the bare name of a host.
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.\-]*://)?(?:[^/@\s]*@)?([^/\s:?#@]*\.[^/\s:?#]*)", re.I)


def hidden_risks(words: Words) -> Iterator[Risk]:
    """Yield the words that hold invisible characters or an address in disguise."""
    for at, word in enumerate(words):
        if word is None:
            continue
        if not word.isascii():
            if any(char not in "\t\n" and is_hidden(char) for char in word):
                yield Risk(at, HIDDEN, Kind.VALUE)
            elif _disguised(word):
                yield Risk(at, LOOKALIKE, Kind.VALUE)
        elif "xn--" in word.lower():
            yield Risk(at, LOOKALIKE, Kind.VALUE)
        elif not word.isprintable() and any(char < " " and char not in "\t\n" for char in word):
            yield Risk(at, HIDDEN, Kind.VALUE)


def _disguised(word: str) -> bool:
    found = _ADDRESS.match(word)
    return found is not None and not found[1].isascii()
