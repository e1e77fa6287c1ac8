"""Stored searches of callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from app.contract.saved_searches import SavedSearch
from app.db.rows import Place, Position, new_id
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class PutSearch:
    """The result of saving: whether the name is new, and whether a different request was replaced."""

    id: UUID
    is_new: bool
    is_replaced: bool


async def count_others(session: TenantSession, owner: str, name: str) -> int:
    """Count the owner's other saved searches; the owner cannot add one elsewhere until the transaction ends."""
    await session.fetch(SQL["lock_owner"], owner=owner)
    return int(await session.fetch_value(SQL["count"], owner=owner, name=name))


async def count_all(session: TenantSession) -> int:
    """Count the tenant's saved searches."""
    return int(await session.fetch_value(SQL["count_all"]))


async def put_saved_search(
    session: TenantSession, owner: str, name: str, request: Mapping[str, Any]
) -> PutSearch:
    """Save a search; it replaces the owner's search of the same name. Call `count_others` before."""
    kept = await session.fetch_one_as(
        PutSearch,
        SQL["save"],
        id=new_id(),
        owner=owner,
        name=name,
        request=orjson.dumps(dict(request)).decode(),
    )
    assert kept is not None
    return kept


async def fetch_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> SavedSearch | None:
    """One saved search of the owner."""
    found = await fetch_saved_searches(session, owner, [saved_search_id])
    return found[0] if found else None


async def fetch_saved_searches(session: TenantSession, owner: str, ids: Sequence[UUID]) -> list[SavedSearch]:
    """Saved searches of the owner, in the order of `ids`."""
    return await session.fetch_as(SavedSearch, SQL["fetch"], owner=owner, ids=list(ids))


async def list_saved_searches(
    session: TenantSession, owner: str, order: Order, after: Position | None, limit: int
) -> list[Place]:
    """Places in the list of the owner's saved searches."""
    key, last_id = after or (None, None)
    return await session.fetch_as(
        Place, SQL["list"].ordered(order), owner=owner, after_key=key, after_id=last_id, limit=limit
    )


async def delete_saved_search(session: TenantSession, owner: str, saved_search_id: UUID) -> bool:
    """Delete a saved search of the owner, with its subscription; False when there is none."""
    return await session.execute(SQL["delete"], owner=owner, id=saved_search_id) > 0
