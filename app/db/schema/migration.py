"""Applying the schema, and the pieces of DDL that every tenant table shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from alembic import command, op
from app.db.engine import make_engine

_PACKAGE = Path(__file__).resolve().parents[2]
SCRIPTS = next(
    folder for folder in (_PACKAGE / "alembic", _PACKAGE.parent / "alembic") if (folder / "env.py").exists()
)
"""The migrations: inside the installed package, or beside it in a checkout."""


def execute_script(script: str) -> None:
    """Run several SQL statements in the migration's transaction (asyncpg's simple query protocol)."""
    connection: Any = op.get_bind().connection.dbapi_connection
    op.execute(text("select 1"))  # opens the transaction: the driver does so with its first statement
    connection.run_async(lambda driver: driver.execute(script))


def isolate_tables(*tables: str) -> str:
    """DDL that puts tables, and all their partitions, under forced row-level security by `tenant_id`.

    The policy names two roles: the application's, and the owner, whose triggers and backfills see the rows
    of the tenant that is set and no others.
    """
    names = ", ".join(f"'{table}'" for table in tables)
    return f"""
do $$
declare name text; part regclass;
begin
  foreach name in array array[{names}] loop
    for part in select relid from pg_partition_tree(name::regclass) loop
      execute format('alter table %s enable row level security, force row level security', part);
    end loop;
    if not exists (select from pg_partition_tree(name::regclass)) then
      execute format('alter table %I enable row level security, force row level security', name);
    end if;
    execute format('create policy tenant_isolation on %I to kb_app, current_user
        using (tenant_id = (select current_tenant())) with check (tenant_id = (select current_tenant()))', name);
    execute format('grant select, insert, update, delete on %I to kb_app', name);
  end loop;
end $$;
"""


def configuration() -> Config:
    """Alembic's configuration for the scripts of this project."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    return config


def latest_revision() -> str:
    """The revision that this version of the service expects."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    assert head is not None
    return head


def known_revisions() -> frozenset[str]:
    """All revisions up to and including the latest."""
    return frozenset(s.revision for s in ScriptDirectory.from_config(configuration()).walk_revisions())


async def migrate(admin_dsn: str, revision: str = "head", *, down: bool = False) -> None:
    """Bring the database at `admin_dsn` to `revision`, as the role that owns the tables.

    Raises asyncpg.PostgresError, e.g. InsufficientPrivilegeError.
    """
    config = configuration()
    engine = make_engine(admin_dsn, poolclass=NullPool)

    def apply(connection: Connection) -> None:
        config.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(config, revision)

    try:
        async with engine.connect() as connection:
            await connection.run_sync(apply)
            await connection.commit()
    except DBAPIError as error:
        # Alembic's own statements pass through SQLAlchemy, the scripts do not: one kind of error for both.
        cause = error.orig.__cause__ if error.orig is not None else None
        if isinstance(cause, asyncpg.PostgresError):
            raise cause from error
        raise
    finally:
        await engine.dispose()


async def current_revision(dsn: str) -> str | None:
    """The revision that the database is at, or None when it has never been migrated."""
    engine = make_engine(dsn, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(lambda c: MigrationContext.configure(c).get_current_revision())
    finally:
        await engine.dispose()
