"""The tags of a tenant's entries."""

from __future__ import annotations

from app.contract.entries import TagCount
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


async def list_tags(
    session: TenantSession,
    *,
    prefix: str,
    order: Order,
    after: TagCount | None,
    limit: int,
) -> list[TagCount]:
    """Tags that start with the prefix; tags with equal counts are in the order of their characters."""
    return await session.fetch_as(
        TagCount,
        SQL["list"].ordered(order),
        prefix=prefix,
        after_key=None if after is None else getattr(after, order.column),
        after_tag=None if after is None else after.tag,
        limit=limit,
    )
