"""Searches that callers keep, as stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from app.db.identifiers import new_id
from app.db.rows import Position
from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def count_others(session: TenantSession, owner: str, name: str) -> int:
    """How many the owner has under other names; nobody adds one for this owner until the transaction ends."""
    await session.fetch(SQL["lock_owner"], owner=owner)
    return int(await session.fetch_value(SQL["count"], owner=owner, name=name))


async def put_saved_search(session: TenantSession, owner: str, name: str, request: Mapping[str, Any]) -> Row:
    """Keep a search, in place of the owner's of the same name if there is one.

    `is_new` says which, and `is_replaced` whether that one asked for something else. Call `count_others` before.
    """
    row = await session.fetch_row(
        SQL["save"],
        id=new_id(),
        owner=owner,
        name=name,
        request=orjson.dumps(dict(request)).decode(),
    )
    assert row is not None
    return row


async def fetch_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> Row | None:
    """One of the owner's."""
    return await session.fetch_row(SQL["fetch"], owner=owner, id=saved_search_id)


async def list_saved_searches(
    session: TenantSession, owner: str, before: Position | None, limit: int
) -> Sequence[Row]:
    """The owner's, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch(SQL["list"], owner=owner, before_at=at, before_id=last_id, limit=limit)


async def delete_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> bool:
    """Forget one of the owner's, with its subscription; False when there is none."""
    return await session.execute(SQL["delete"], owner=owner, id=saved_search_id) > 0
