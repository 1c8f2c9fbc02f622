"""Workspace paths the way rules name them: relative, decoded, and never leaving the workspace."""

from __future__ import annotations

from urllib.parse import unquote

from omniweb.core.errors import InvalidInput

_PREFIXES = ("workspace/", "workspace_files/", "files/")


def workspace_path(path: str, *, roots: tuple[str, ...] = ("/workspace",)) -> str:
    """Return a path relative to the workspace, as the target of a request.

    `roots` are the absolute folders that are the workspace. Raises InvalidInput for a path that
    climbs with `..` or is absolute elsewhere.
    """
    text = unquote(path).replace("\\", "/")
    for root in roots:
        if text == root or text.startswith(f"{root.rstrip('/')}/"):
            text = text[len(root) :].lstrip("/")
            break
    if text.startswith("/"):
        raise InvalidInput(f"{path} lies outside the workspace; name it relative to the workspace")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidInput(f"{path} climbs with '..'; name the file from the workspace down")
    text = "/".join(parts)
    prefix = next((prefix for prefix in _PREFIXES if text.startswith(prefix)), "")
    return text.removeprefix(prefix)
