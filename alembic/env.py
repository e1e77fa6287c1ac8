"""Runs migrations on the connection that `app.db.schema.migration` passes, or on DATABASE_ADMIN_URL."""

from __future__ import annotations

import asyncio
import os

from sqlalchemy import Connection
from sqlalchemy.pool import NullPool

from alembic import context
from app.db.engine import make_engine


def run(connection: Connection) -> None:
    """Apply the requested revisions, each in its own transaction."""
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


async def run_from_environment() -> None:
    """Connect as the owner of the tables, for a direct call of `alembic`."""
    engine = make_engine(os.environ["DATABASE_ADMIN_URL"], poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()


given: Connection | None = context.config.attributes.get("connection")
if given is None:
    asyncio.run(run_from_environment())
else:
    run(given)
