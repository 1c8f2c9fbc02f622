"""Paths inside a sandbox's working directory, before any link is followed."""

from __future__ import annotations

import posixpath

from omniweb.core.errors import InvalidInput, Problem
from sandboxes.providers.limits import MAX_PATH_BYTES


def outside(path: str) -> InvalidInput:
    """Return the refusal of a path that leaves the working directory."""
    message = f"Path {path} is outside the sandbox working directory"
    return InvalidInput(message, problems=[Problem(path="path", message=message)])


def confined(working_dir: str, path: str) -> str:
    """Return the absolute form of a path; raises InvalidInput when it leaves the working directory.

    Only the text is looked at. Links are the business of whoever opens the path.
    """
    if "\0" in path or len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        raise InvalidInput("A path has no null byte and at most 4096 bytes")
    full = posixpath.normpath(posixpath.join(working_dir, path))
    root = working_dir.rstrip("/")
    if full != (root or "/") and not full.startswith(root + "/"):
        raise outside(path)
    return full
