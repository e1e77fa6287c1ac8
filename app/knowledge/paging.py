"""Lists in pages: newest first, continued by an opaque cursor."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from app.db.rows import Position
from app.errors import InvalidInput

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and where the next ones start (None: there are no more)."""

    items: Sequence[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page that a caller wants: at most `limit` items, from the first one after `after` (None: from the start)."""

    limit: int
    after: Position | None

    @classmethod
    def read(cls, limit: int, cursor: str | None) -> PageRequest:
        """Raises InvalidInput."""
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
        return cls(limit, None if cursor is None else read_position(cursor))

    @property
    def reach(self) -> int:
        """Items to read: one more than the page has, to learn whether there is a next page."""
        return self.limit + 1

    def cut(self, found: Sequence[T], position: Callable[[T], Position]) -> Page[T]:
        """The page, made of the items that were found; `position` tells where an item is in the list."""
        if len(found) <= self.limit:
            return Page(found, None)
        items = found[: self.limit]
        return Page(items, write_position(position(items[-1])))


def write_position(position: Position) -> str:
    """The cursor that `read_position` understands."""
    microseconds = (position.at - EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(struct.pack(">q", microseconds) + position.id.bytes).decode().rstrip("=")


def read_position(cursor: str) -> Position:
    """The position that a cursor names. Raises InvalidInput."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        (microseconds,) = struct.unpack(">q", raw[:8])
        return Position(EPOCH + timedelta(microseconds=microseconds), UUID(bytes=raw[8:]))
    except (binascii.Error, ValueError, struct.error, OverflowError) as error:
        raise InvalidInput.of("cursor", "must be the next_cursor of an earlier response") from error
