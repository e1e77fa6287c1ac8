"""Paged lists: newest first, with an opaque cursor for the next page."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from app.db.rows import Place, Position
from app.errors import InvalidInput

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PAGE = 200

PAGE_BYTES = 2 * 1024 * 1024
"""Bytes of the items of a page, of a list or a search: the page ends after the item that reaches it."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and the cursor of the next page (None: this is the last page)."""

    items: Sequence[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for at most `limit` items that follow `after` (None: from the start)."""

    limit: int
    after: Position | None

    @classmethod
    def read(cls, limit: int, cursor: str | None) -> PageRequest:
        """Parse a caller's limit and cursor. Raises InvalidInput."""
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
        return cls(limit, None if cursor is None else read_position(cursor))

    @property
    def reach(self) -> int:
        """Number of items to read: one more than the page holds, to see whether there is a next page."""
        return self.limit + 1

    def cut(self, found: Sequence[T], position: Callable[[T], Position]) -> Page[T]:
        """Make the page from the items that were read, all of small size; `position` returns an item's position."""
        return self._cut(found, self.limit, position)

    def cut_places(self, found: Sequence[Place]) -> Page[Place]:
        """Make the page from the places that were read: fewer than its limit when their bytes reach PAGE_BYTES."""
        most = count_within(place.bytes for place in found[: self.limit])
        return self._cut(found, most, lambda place: place.position)

    def _cut(self, found: Sequence[T], most: int, position: Callable[[T], Position]) -> Page[T]:
        if len(found) <= most:
            return Page(found, None)
        items = found[:most]
        return Page(items, write_position(position(items[-1])))


def count_within(sizes: Iterable[int]) -> int:
    """Number of items up to the one with which they have PAGE_BYTES."""
    count = total = 0
    for size in sizes:
        if total >= PAGE_BYTES:
            break
        count += 1
        total += size
    return count


def write_position(position: Position) -> str:
    """Encode a position as a cursor."""
    microseconds = (position.at - EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(struct.pack(">q", microseconds) + position.id.bytes).decode().rstrip("=")


def read_position(cursor: str) -> Position:
    """Decode a cursor. Raises InvalidInput."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        (microseconds,) = struct.unpack(">q", raw[:8])
        return Position(EPOCH + timedelta(microseconds=microseconds), UUID(bytes=raw[8:]))
    except (binascii.Error, ValueError, struct.error, OverflowError) as error:
        raise InvalidInput.of("cursor", "must be the next_cursor of an earlier response") from error
