"""Whether the database that answers now is one that this version can serve."""

from __future__ import annotations

from functools import cache

from app.db.database import Database
from app.db.schema.migration import known_revisions, latest_revision
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable

REVISION = parse_statement("revision", "select version_num from alembic_version")


async def check_readiness(database: Database) -> None:
    """Raise DatabaseUnavailable when the database does not answer, or lacks migrations that this version needs.

    A revision that this version does not know is a newer one: while an upgrade is rolled out, the database is
    migrated first, and the instances of the older version go on serving.
    """
    async with database.platform_session() as session:
        revision = await session.fetch_value(REVISION)
    if revision in outdated_revisions():
        raise DatabaseUnavailable("the database lacks migrations; run: knowledge migrate", retry_after=5.0)


@cache
def outdated_revisions() -> frozenset[str | None]:
    """Revisions before the one that is needed; None stands for a database without any.

    Reads the migrations from files the first time, which blocks for a moment.
    """
    return frozenset({None, *known_revisions()}) - {latest_revision()}
