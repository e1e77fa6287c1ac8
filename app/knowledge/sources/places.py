"""Places in lists of sources and of their items, which are ordered by name or external id."""

from __future__ import annotations

from app.errors import InvalidInput
from app.knowledge.paging import MAX_PAGE, read_cursor, read_text, unknown_cursor, write_cursor


def read_place(limit: int, cursor: str | None) -> str | None:
    """The name or id after which a page starts. Raises InvalidInput."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
    if cursor is None:
        return None
    try:
        return read_text(read_cursor(cursor, "name"))
    except ValueError as error:
        raise unknown_cursor() from error


def write_place(last: str) -> str:
    """The cursor of the page that follows this name or id."""
    return write_cursor(last.encode(), "name")
