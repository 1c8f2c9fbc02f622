"""Secrets an installation makes for itself once, and keeps in a file only it can read."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def secret_kept(path: Path, make: Callable[[], str]) -> str:
    """Return the secret in a file, made and written first when there is none.

    Of processes that start at once, one wins and the others read what it wrote.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(make())
        # Linking fails if another process was first, and never shows a half-written secret.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text().strip()
