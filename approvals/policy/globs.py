"""Shell globs over whole strings: case-sensitive, `*` and `?` cross every character, `[set]` works."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

type Matcher = Callable[[str], bool]

MAX_PATTERN_LENGTH = 1_000
_SPECIAL = re.compile(r"[*?\[]")


def has_glob(pattern: str) -> bool:
    """Tell whether a pattern holds anything a glob would interpret."""
    return _SPECIAL.search(pattern) is not None


def compile_glob(pattern: str) -> Matcher:
    """Return the test for one pattern; its time is bounded by text length times pattern length."""
    if not has_glob(pattern):
        return pattern.__eq__
    if pattern.strip("*") == "":
        return _anything
    # The standard translation puts each `*piece` in an atomic group, so a failing tail never
    # makes an earlier star try again: no pattern can blow up.
    match = re.compile(fnmatch.translate(pattern)).match
    return lambda text: match(text) is not None


def _anything(_text: str) -> bool:
    return True
