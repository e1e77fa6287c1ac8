"""Checks that this version can serve the connected database."""

from __future__ import annotations

from functools import cache

from app.db.database import Database
from app.db.schema.scripts import known_revisions, latest_revision
from app.db.statements import parse_statement
from app.errors import DatabaseUnavailable

REVISION = parse_statement("revision", "select version_num from alembic_version")


async def check_readiness(database: Database) -> None:
    """Raise DatabaseUnavailable when the database does not answer or lacks migrations that this version needs.

    An unknown revision is a newer one: in a rolling upgrade the database is migrated first, and instances of the
    older version continue to serve.
    """
    async with database.platform_session() as session:
        revision = await session.fetch_value(REVISION)
    if revision in outdated_revisions():
        raise DatabaseUnavailable("the database lacks migrations; run: knowledge migrate", retry_after=5.0)


@cache
def outdated_revisions() -> frozenset[str | None]:
    """Revisions before the required one; None stands for a database without a revision.

    The first call reads the migrations from files, which blocks briefly.
    """
    return frozenset({None, *known_revisions()}) - {latest_revision()}
