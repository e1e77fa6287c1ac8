"""Lists in pages: newest first, continued by an opaque cursor."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from app.db.session import Row
from app.errors import InvalidInput

T = TypeVar("T")
Position = tuple[datetime, UUID]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items, and where the next ones start (None: there are no more)."""

    items: Sequence[T]
    next_cursor: str | None


async def page_of(
    read: Callable[[Position | None, int], Awaitable[Sequence[Row]]],
    limit: int,
    cursor: str | None,
    time: str,
) -> Page[Row]:
    """Read one page; `time` names the column that, with the id, the list is ordered by. Raises InvalidInput."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput.of("limit", f"must be between 1 and {MAX_PAGE}")
    rows = await read(read_cursor(cursor) if cursor is not None else None, limit + 1)
    if len(rows) <= limit:
        return Page(rows, None)
    last = rows[limit - 1]
    return Page(rows[:limit], write_cursor((last[time], last["id"])))


def write_cursor(position: Position) -> str:
    """The text that `read_cursor` understands."""
    microseconds = (position[0] - EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(struct.pack(">q", microseconds) + position[1].bytes).decode().rstrip("=")


def read_cursor(cursor: str) -> Position:
    """The position that a cursor names. Raises InvalidInput."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        (microseconds,) = struct.unpack(">q", raw[:8])
        return EPOCH + timedelta(microseconds=microseconds), UUID(bytes=raw[8:])
    except (binascii.Error, ValueError, struct.error, OverflowError) as error:
        raise InvalidInput.of("cursor", "must be the next_cursor of an earlier answer") from error
