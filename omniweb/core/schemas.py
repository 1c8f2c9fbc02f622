"""What every operation of the API shares: pages, problems, and text that any database can keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from ninja import Schema
from pydantic import AfterValidator, ConfigDict, Field

from omniweb.core.pagination import MAX_PAGE_SIZE, PAGE_SIZE, Page


def storable(value: Any) -> Any:
    """Return text or JSON as it is; raises ValueError for what PostgreSQL or UTF-8 cannot hold."""
    if isinstance(value, str):
        if "\0" in value or (not value.isascii() and not _is_unicode(value)):
            raise ValueError("text must not contain null characters or half surrogate pairs")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            storable(name)
            storable(item)
    elif isinstance(value, list):
        for item in value:
            storable(item)
    return value


def encodable(text: str) -> str:
    """Return text as it is; raises ValueError for what UTF-8 cannot hold."""
    if not text.isascii() and not _is_unicode(text):
        raise ValueError("text must not contain half surrogate pairs")
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


Text = Annotated[str, AfterValidator(storable)]
# What goes into a command: it may hold more than a text, and says itself where it may not.
Bytes = Annotated[str, AfterValidator(encodable)]
Json = Annotated[dict[str, Any], AfterValidator(storable)]


class Body(Schema):
    """What a request says; a field that does not exist is refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(Schema):
    """Where a page of a list starts and how long it is."""

    cursor: Text = Field("", description="`next` of the page before; empty for the first")
    limit: int = Field(PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)


class Listing[T](Schema):
    """A page of a list. `next` is the cursor of the page after it, null on the last."""

    items: list[T]
    next: str | None


def listing[R, T](page: Page[R], show: Callable[[R], T]) -> Listing[T]:
    """Return a page of rows as they are shown."""
    return Listing[T](items=[show(row) for row in page.items], next=page.next_cursor)


class ProblemPart(Schema):
    """One thing that is wrong with an input."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None
    suggestion: str = ""


class ProblemDocument(Schema):
    """An error (RFC 9457). `code` is permanent; some codes add members of their own."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    problems: list[ProblemPart] = Field(default_factory=list, description="Only for invalid_input")
