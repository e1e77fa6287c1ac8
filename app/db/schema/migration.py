"""Applies the schema: the migrations, and the SQL files that they load."""

from __future__ import annotations

from typing import Any

import asyncpg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from alembic import command, op
from app.db.engine import make_engine
from app.db.schema import scripts
from app.db.schema.scripts import check_revision, function_script, read_file

EACH_TENANT = """
    do $$
    declare tenant uuid;
    begin
      for tenant in select id from tenants loop
        perform set_config('app.current_tenant', tenant::text, true);
        STATEMENT;
      end loop;
      perform set_config('app.current_tenant', '', true);
    end $$;
"""


def execute_script(script: str) -> None:
    """Run several SQL statements in the migration's transaction (asyncpg's simple query protocol)."""
    connection: Any = op.get_bind().connection.dbapi_connection
    op.execute(text("select 1"))  # opens the transaction: the driver begins it with its first statement
    connection.run_async(lambda driver: driver.execute(script))


def update_each_tenant(statement: str) -> None:
    """Run an update once for each tenant, whose id is `tenant` in it.

    Under forced row-level security the owner sees no rows without a tenant, and only those of this one with it.
    """
    execute_script(EACH_TENANT.replace("STATEMENT", statement))


def run_file(name: str) -> None:
    """Run a file of `alembic/sql`."""
    execute_script(read_file(name))


def load_function(file: str, function: str) -> None:
    """Create or replace one function, e.g. `keyword.search`, from its text in a file of `alembic/sql`."""
    execute_script(function_script(file, function))


def configuration() -> Config:
    """The Alembic configuration of this project."""
    config = Config()
    config.set_main_option("script_location", str(scripts.SCRIPTS))
    return config


async def migrate(
    admin_dsn: str, revision: str = "head", *, down: bool = False, setting: str = "DATABASE_ADMIN_URL"
) -> None:
    """Migrate the database at `admin_dsn` to `revision`, as the owner of the tables.

    Raises ConfigurationError, which names `setting`, for a database at an unknown revision, and
    asyncpg.PostgresError, e.g. InsufficientPrivilegeError.
    """
    config = configuration()
    engine = make_engine(admin_dsn, poolclass=NullPool)

    def apply(connection: Connection) -> None:
        check_revision(MigrationContext.configure(connection).get_current_revision(), setting)
        connection.rollback()  # alembic begins a transaction for each revision only if there is none
        config.attributes["connection"] = connection
        (command.downgrade if down else command.upgrade)(config, revision)

    try:
        async with engine.connect() as connection:
            await connection.run_sync(apply)
            await connection.commit()
    except DBAPIError as error:
        # Alembic's own statements use SQLAlchemy and the scripts do not; both should raise the same kind of error.
        cause = error.orig.__cause__ if error.orig is not None else None
        if isinstance(cause, asyncpg.PostgresError):
            raise cause from error
        raise
    finally:
        await engine.dispose()
