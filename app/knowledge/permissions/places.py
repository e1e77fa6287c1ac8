"""Cursors of lists of entries and assets by id."""

from __future__ import annotations

from uuid import UUID

from app.db.queries.knowledge.access import ItemKind
from app.knowledge.paging import read_cursor, unknown_cursor, write_cursor

ORDER = "access"


def read_place(cursor: str | None) -> tuple[ItemKind, UUID | None]:
    """The kind and the last item of a cursor. Raises InvalidInput."""
    if cursor is None:
        return "entry", None
    place = read_cursor(cursor, ORDER)
    if place[:1] not in (b"a", b"e") or len(place) not in (1, 17):
        raise unknown_cursor()
    return "asset" if place[:1] == b"a" else "entry", UUID(bytes=place[1:]) if len(place) == 17 else None


def write_place(kind: ItemKind, last: UUID | None) -> str:
    """The cursor after an item; None: of the first item of this kind."""
    return write_cursor(kind[:1].encode() + (b"" if last is None else last.bytes), ORDER)
