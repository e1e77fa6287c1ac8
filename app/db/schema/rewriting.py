"""Rewrite the files of a tenant's tables, so that they keep nothing of removed rows.

After a deletion, and also after `vacuum`, Postgres leaves the bytes of rows in free space, the words of deleted entries
as keys of GIN indexes, and the most common values of columns in its statistics. `vacuum full` writes new files of
tables and indexes without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from app.db.schema.catalog import connect, using
from app.db.statements import load_statements

SQL = load_statements(__name__)

STATISTICS = "pg_catalog.pg_statistic"


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """The rewritten tables, and the tables that need a role with more rights."""

    rewritten: list[str]
    refused: list[str]


async def rewrite_files(admin_dsn: str, tenant_id: UUID, setting: str, tell: Callable[[str], object]) -> RewrittenFiles:
    """Rewrite the files of all tables that hold rows of a tenant, and of the statistics of columns, as their owner.

    Each table is locked while it is rewritten, also for reads: `tell` gets its name before. Raises ConfigurationError,
    which names `setting`, DatabaseUnavailable, and asyncpg.PostgresError.
    """
    rewritten: list[str] = []
    refused: list[str] = []
    async with using(await connect(admin_dsn, setting)) as connection:
        can_clear = await connection.fetchval(SQL["can_clear"].sql)
        places = [row["place"] for row in await connection.fetch(SQL["places"].sql, tenant_id)]
        parents = [row["place"] for row in await connection.fetch(SQL["parents"].sql)]
        for place in (*places, *parents, STATISTICS):
            tell(place)
            if can_clear and place != STATISTICS:
                await connection.fetch(SQL["clear_statistics"].sql, place)
            if place in parents:
                await connection.execute(f"analyze {place}")
                continue
            before = await connection.fetchval(SQL["file"].sql, place)
            await connection.execute(f"vacuum ({'full' if place == STATISTICS else 'full, analyze'}) {place}")
            # Without the right, Postgres only issues a warning.
            changed = before != await connection.fetchval(SQL["file"].sql, place)
            (rewritten if changed else refused).append(place)
    return RewrittenFiles(rewritten, refused)
