"""Keyset pagination: newest first, stable while rows are added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.ids import parse_ref

PAGE_SIZE = 50
MAX_PAGE_SIZE = 200


@dataclass(frozen=True)
class Page[R]:
    """A slice of rows, and the reference after which the next one starts."""

    items: list[R]
    next_cursor: str | None


def paginate(
    rows: QuerySet[Any, Any], cursor: str | None = None, size: int = PAGE_SIZE
) -> Page[Any]:
    """Return one page of rows ordered by key, newest first; the cursor is a row's reference."""
    rows = rows.order_by("-id")
    if cursor:
        key = parse_ref(rows.model.PREFIX, cursor)
        if key is None:
            problem = Problem(path="cursor", message=f"{cursor!r} is not a cursor of this list")
            raise InvalidInput(problems=[problem])
        rows = rows.filter(id__lt=key)
    size = max(1, min(size, MAX_PAGE_SIZE))
    items = list(rows[: size + 1])
    more = len(items) > size
    return Page(items[:size], items[size - 1].ref if more else None)
