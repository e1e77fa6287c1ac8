"""How many entries a caller may read."""

from __future__ import annotations

from typing import NamedTuple

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


class Readable(NamedTuple):
    """Bounds of the number of entries that a caller may read."""

    least: int
    most: int


async def count_readable(session: TenantSession) -> Readable:
    """How many entries the caller may read, without looking at them."""
    found = await session.fetch_one_as(Readable, SQL["count_readable"])
    assert found is not None
    return found
