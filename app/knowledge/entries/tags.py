"""List the tags of a tenant's entries, with counts."""

from __future__ import annotations

import struct
from typing import get_args
from uuid import UUID

from app.contract.entries import MAX_TAG, TagCount
from app.contract.fields import Page
from app.contract.text import STORABLE, is_storable
from app.contract.vocabulary import TagSort
from app.db.database import Database
from app.db.queries import entries as db
from app.errors import InvalidInput
from app.knowledge.paging import check_page, order_of, read_cursor, read_text, unknown_cursor, write_cursor


class TagService:
    """Lists the tags of any tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_tags(
        self,
        tenant_id: UUID,
        *,
        prefix: str = "",
        limit: int = 50,
        cursor: str | None = None,
        sort: TagSort = "tag",
    ) -> Page[TagCount]:
        """Tags that start with the prefix, each with the number of entries that a search with the tag finds.

        Tags of hidden entries only are omitted. With the sort `tag`, pages neither repeat nor skip a tag, whatever is
        written in the meantime; with `count`, a tag whose count changes can move. Raises InvalidInput.
        """
        check_page(limit, sort, get_args(TagSort))
        if len(prefix) > MAX_TAG or not is_storable(prefix):
            raise InvalidInput.of("prefix", f"must be at most {MAX_TAG} characters, {STORABLE}")
        after = None if cursor is None else _read_place(cursor, sort)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.list_tags(session, prefix=prefix, order=order_of(sort), after=after, limit=limit + 1)
        items = found[:limit]
        following = None if len(found) <= limit else _write_place(items[-1], sort)
        return Page(items, following)


def _write_place(last: TagCount, sort: TagSort) -> str:
    return write_cursor(struct.pack(">q", last.count) + last.tag.encode(), sort)


def _read_place(cursor: str, sort: TagSort) -> TagCount:
    place = read_cursor(cursor, sort)
    try:
        return TagCount(read_text(place[8:]), struct.unpack(">q", place[:8])[0])
    except (ValueError, struct.error) as error:
        raise unknown_cursor() from error
