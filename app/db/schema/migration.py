"""Apply the schema: the migrations, and the SQL files that they load."""

from typing import Any

import asyncpg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from alembic import command, op
from app.db.cluster.distribution import spread
from app.db.cluster.sessions import SQL as PLACES
from app.db.engine import make_engine
from app.db.outage import LOST
from app.db.schema import scripts
from app.db.schema.scripts import check_revision, function_script, read_file
from app.errors import DatabaseUnavailable

EACH_TENANT = """
    do $$
    declare tenant uuid;
    begin
      perform set_config('citus.propagate_set_commands', 'local', true);
      set local app.current_principals = '{*,everyone}';
      for tenant in select id from tenants loop
        execute format('set local app.current_tenant = %L', tenant);
        STATEMENT;
      end loop;
      set local app.current_tenant = '';
      set local app.current_principals = '';
      -- Otherwise later texts with `set local` would run on the nodes, too.
      perform set_config('citus.propagate_set_commands', 'none', true);
    end $$;
"""
CITUS = "citus"
"""In a connection's `info`: whether it gets the schema for Citus."""


def execute_script(script: str) -> None:
    """Run several SQL statements in the migration's transaction; on Citus, on the shards of the tables too."""
    _execute(spread(script) if _is_distributed() else script)


def update_each_tenant(statement: str) -> None:
    """Run an update once for each tenant, whose id is `tenant` in it.

    Under forced row-level security the owner sees no rows without a tenant, and only those of this one with it.
    """
    _execute(EACH_TENANT.replace("STATEMENT", statement))


def run_file(name: str) -> None:
    """Run a file of `alembic/sql`. On Citus, the tables that it creates are distributed after the last migration."""
    _execute(read_file(name, distributed=is_citus()))


def load_function(file: str, function: str) -> None:
    """Create or replace one function, e.g. `keyword.search`, from its text in a file of `alembic/sql`.

    On Citus this is the coordinator's; the other nodes get it after the last migration.
    """
    _execute(function_script(file, function, distributed=is_citus()))


def _execute(script: str) -> None:
    _run(op.get_bind(), script)


def _run(connection: Connection, script: str) -> None:
    """Run statements by asyncpg's simple query protocol."""
    driver: Any = connection.connection.dbapi_connection
    connection.execute(text("select 1"))  # opens the transaction: the driver begins it with its first statement
    driver.run_async(lambda asyncpg_connection: asyncpg_connection.execute(script))


def is_citus() -> bool:
    """Whether the database is the coordinator of a cluster, or gets the same schema."""
    info = op.get_bind().info
    if CITUS not in info:
        info[CITUS] = op.get_bind().scalar(text(PLACES["has_citus"].sql))
    return bool(info[CITUS])


def _is_distributed() -> bool:
    bind = op.get_bind()
    return bool(bind.scalar(text(PLACES["has_citus"].sql)) and bind.scalar(text(PLACES["is_distributed"].sql)))


def configuration() -> Config:
    """The Alembic configuration of this project."""
    config = Config()
    config.set_main_option("script_location", str(scripts.SCRIPTS))
    return config


async def migrate(
    admin_dsn: str,
    revision: str = "head",
    *,
    down: bool = False,
    citus: bool = False,
    setting: str = "DATABASE_ADMIN_URL",
) -> None:
    """Migrate the database at `admin_dsn` to `revision`, as the owner of the tables.

    With `citus`, one server gets the schema that the coordinator of a cluster has before it distributes the tables.

    Raises ConfigurationError, which names `setting`, for a database at an unknown revision, DatabaseUnavailable, and
    asyncpg.PostgresError, e.g. InsufficientPrivilegeError.
    """
    config = configuration()
    engine = make_engine(admin_dsn, poolclass=NullPool)

    def apply(connection: Connection) -> None:
        check_revision(MigrationContext.configure(connection).get_current_revision(), setting)
        if connection.scalar(text(PLACES["has_citus"].sql)):
            connection.execute(text("set citus.enable_ddl_propagation = off"))
            connection.commit()
        connection.rollback()  # alembic begins a transaction for each revision only if there is none
        config.attributes["connection"] = connection
        if citus:
            connection.info[CITUS] = True
        (command.downgrade if down else command.upgrade)(config, revision)

    try:
        async with engine.connect() as connection:
            await connection.run_sync(apply)
            await connection.commit()
    except DBAPIError as error:
        # Alembic's own statements use SQLAlchemy and the scripts do not; both should raise the same kind of error.
        cause = error.orig.__cause__ if error.orig is not None else None
        if isinstance(cause, asyncpg.PostgresError) and not isinstance(cause, LOST):
            raise cause from error
        if isinstance(cause, (*LOST, ConnectionError, asyncpg.InterfaceError)):
            raise DatabaseUnavailable from error
        raise
    except (*LOST, ConnectionError, asyncpg.InterfaceError) as error:
        raise DatabaseUnavailable from error
    finally:
        await engine.dispose()
