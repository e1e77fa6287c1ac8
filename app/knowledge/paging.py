"""Paged lists in an order, by default newest first, with an opaque cursor for the next page.

A cursor is the position of the last item, not a number of items: items that are added or removed between two pages
neither shift nor repeat the others. Equal values are ordered by id.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar
from uuid import UUID

from app.contract.fields import Page
from app.contract.text import is_storable
from app.db.rows import Place, Position
from app.db.statements import Order
from app.errors import InvalidInput

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PAGE = 200

PAGE_BYTES = 2 * 1024 * 1024
"""Bytes of the items of a page, of a list or a search: the page ends after the item that reaches it."""


NEWEST_FIRST: Literal["-created_at"] = "-created_at"
"""The order of a list whose caller asks for none."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for at most `limit` items that follow `after` (None: from the start) in the order `sort`."""

    limit: int
    sort: str
    after: Position | None

    @classmethod
    def read(
        cls, limit: int, cursor: str | None, sort: str = NEWEST_FIRST, sorts: Collection[str] = (NEWEST_FIRST,)
    ) -> PageRequest:
        """Parse a caller's limit, cursor and order, which must be one of `sorts`. Raises InvalidInput."""
        check_page(limit, sort, sorts)
        return cls(limit, sort, None if cursor is None else read_position(cursor, sort))

    @property
    def order(self) -> Order:
        """The order for the SQL of the list."""
        return order_of(self.sort)

    @property
    def reach(self) -> int:
        """Number of items to read: one more than the page holds, to see whether there is a next page."""
        return self.limit + 1

    def cut(self, found: Sequence[T], position: Callable[[T], Position]) -> Page[T]:
        """Make the page from the items that were read, all of small size; `position` returns an item's position."""
        return self.page(found[: self.limit], len(found) > self.limit, position)

    def cut_places(self, found: Sequence[Place]) -> Page[Place]:
        """Make the page from the places that were read: fewer than its limit when their bytes reach PAGE_BYTES."""
        most = count_within(place.bytes for place in found[: self.limit])
        return self.page(found[:most], len(found) > most, lambda place: place.position)

    def page(self, items: Sequence[T], has_more: bool, position: Callable[[T], Position]) -> Page[T]:
        """Make the page from exactly its items."""
        if not items or not has_more:
            return Page(items, None)
        return Page(items, write_position(position(items[-1]), self.sort))


def count_within(sizes: Iterable[int]) -> int:
    """Number of items up to the one with which they have PAGE_BYTES."""
    count = total = 0
    for size in sizes:
        if total >= PAGE_BYTES:
            break
        count += 1
        total += size
    return count


def order_of(sort: str) -> Order:
    """The order for the SQL of a list."""
    return Order(sort.removeprefix("-"), sort.startswith("-"))


def check_page(limit: int, sort: str, sorts: Collection[str]) -> None:
    """Check a caller's page size and order. Raises InvalidInput."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
    if sort not in sorts:
        raise InvalidInput.of("sort", f"must be one of {', '.join(sorts)}")


def write_position(position: Position, sort: str) -> str:
    """Encode a position in a list of this order as a cursor."""
    key = position.key
    if isinstance(key, datetime):
        key_bytes = struct.pack(">q", (key - EPOCH) // timedelta(microseconds=1))
    else:
        key_bytes = key.encode()
    return write_cursor(position.id.bytes + key_bytes, sort)


def read_position(cursor: str, sort: str) -> Position:
    """Decode a cursor of a list of this order. Raises InvalidInput."""
    raw = read_cursor(cursor, sort)
    try:
        row, key = UUID(bytes=raw[:16]), raw[16:]
        if not sort.endswith("_at"):
            return Position(read_text(key), row)
        (microseconds,) = struct.unpack(">q", key)
        return Position(EPOCH + timedelta(microseconds=microseconds), row)
    except (ValueError, struct.error, OverflowError) as error:
        raise unknown_cursor() from error


def write_cursor(place: bytes, sort: str) -> str:
    """Encode a place in a list of this order."""
    return base64.urlsafe_b64encode(place + b"\0" + sort.encode()).decode().rstrip("=")


def read_cursor(cursor: str, sort: str) -> bytes:
    """Decode a cursor of a list; return the place. Raises InvalidInput, also for a list of another order."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise unknown_cursor() from error
    place, mark, order = raw.rpartition(b"\0")
    if mark and order != sort.encode() and order.decode("ascii", "replace").removeprefix("-").isidentifier():
        raise InvalidInput.of("cursor", "belongs to a list in another order: send the same sort")
    if not mark or order != sort.encode():
        raise unknown_cursor()
    return place


def read_text(raw: bytes) -> str:
    """Decode a text in a cursor. Raises ValueError."""
    text = raw.decode()
    if not is_storable(text):
        raise ValueError("not a text that a row can have")
    return text


def unknown_cursor() -> InvalidInput:
    """The error for a cursor that no response has contained."""
    return InvalidInput.of("cursor", "must be the next_cursor of an earlier response")
