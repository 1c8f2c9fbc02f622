"""Characters that make a word look like another: invisible ones, and letters of other scripts."""

from __future__ import annotations

import re

from approvals.policy.commands.line import Kind, Risk, Words, is_hidden

HIDDEN = "characters that cannot be seen"
LOOKALIKE = "an address with letters that can pass for others"

# An address as programs take it: with a scheme, behind an @, or the bare name of a host.
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.\-]*://)?(?:[^/@\s]*@)?([^/\s:?#@]*\.[^/\s:?#]*)", re.I)


def hidden_risks(words: Words) -> list[Risk]:
    """Return the words that hold invisible characters or an address in disguise."""
    together = "".join(word for word in words if word)
    if together.isascii() and together.isprintable() and "xn--" not in together.lower():
        return []
    kinds = ((at, _hides(word)) for at, word in enumerate(words) if word)
    return [Risk(at, does, Kind.VALUE) for at, does in kinds if does]


def _hides(word: str) -> str | None:
    if any(is_hidden(char) and char not in "\t\n" for char in word):
        return HIDDEN
    if "xn--" in word.lower() or (not word.isascii() and _disguised(word)):
        return LOOKALIKE
    return None


def _disguised(word: str) -> bool:
    found = _ADDRESS.match(word)
    return found is not None and not found[1].isascii()
