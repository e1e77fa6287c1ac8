"""Check whether a database can be served: version, extension, migrations, rights of the login role, and pooler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from uuid import uuid4

import asyncpg

from app.db.database import Database
from app.db.outage import LOST
from app.db.rows import Connection
from app.db.schema.scripts import check_revision, known_revisions, latest_revision
from app.db.schema.seal import find_later
from app.db.statements import parse_statement
from app.errors import ConfigurationError, DatabaseUnavailable

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


OLDEST_SERVER = 160000
OLDEST_VECTOR = (0, 8)
CONNECT_SECONDS = 10
CLOSE_SECONDS = 5.0


async def connect(dsn: str, setting: str, *, host: str | None = None, port: int | None = None) -> Connection:
    """Connect, with a `host` and `port` to another server in the same way.

    Raises ConfigurationError, which names the setting and the kind of failure but not the address.
    """
    try:
        # Each statement runs once. In transaction mode, a pooler would show prepared ones to others of the same name.
        return await asyncpg.connect(dsn, host=host, port=port, timeout=CONNECT_SECONDS, statement_cache_size=0)
    except asyncpg.InvalidPasswordError as error:
        raise ConfigurationError(setting, "the server refuses the user name or password") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise ConfigurationError(setting, "the server has no such database") from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise ConfigurationError(setting, f"cannot connect ({type(error).__name__})") from error


@asynccontextmanager
async def using(connection: Connection) -> AsyncIterator[Connection]:
    """Close the connection after the block. Raises DatabaseUnavailable if the connection is lost before."""
    try:
        yield connection
        await connection.close(timeout=CLOSE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        if isinstance(error, LOST) or connection.is_closed():
            raise DatabaseUnavailable from error
        raise
    finally:
        # Closing it after a failure would wait for a database that does not answer.
        connection.terminate()


async def fetch_revision(connection: Connection) -> str | None:
    """The database's revision, or None when it has never been migrated."""
    if not await connection.fetchval("select to_regclass('public.alembic_version') is not null"):
        return None
    revision: str | None = await connection.fetchval("select version_num from alembic_version")
    return revision


def _unfit(problem: str, remedy: str | None = None) -> ConfigurationError:
    return ConfigurationError("DATABASE_URL", problem, remedy)


async def check_server(connection: Connection) -> None:
    """Raise ConfigurationError unless Postgres is 16 or newer and has pgvector 0.8 or newer."""
    version = int(await connection.fetchval("show server_version_num"))
    if version < OLDEST_SERVER:
        raise _unfit(f"Postgres {version // 10000} is too old", "16 or newer is required")
    vector = await connection.fetchval("select extversion from pg_extension where extname = 'vector'")
    if vector is None:
        raise _unfit("the extension pgvector is missing", "an administrator runs: create extension vector")
    if tuple(int(part) for part in vector.split(".")[:2]) < OLDEST_VECTOR:
        raise _unfit(f"pgvector {vector} is too old", "0.8 or newer is required: alter extension vector update")


async def check_service_role(connection: Connection) -> None:
    """Raise ConfigurationError when the login role is not subject to row-level security."""
    role = await connection.fetchrow(
        "select rolname, rolsuper, rolbypassrls from pg_roles where rolname = current_user"
    )
    assert role is not None
    name = role["rolname"]
    if role["rolsuper"]:
        raise _unfit(f"the role {name} is a superuser, to which row-level security does not apply", "use another")
    if role["rolbypassrls"]:
        raise _unfit(f"the role {name} has BYPASSRLS", f"run: alter role {name} nobypassrls")
    owned = await connection.fetchval("""
        select c.relname from pg_class c
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
           and pg_has_role(current_user, c.relowner, 'member')
         order by c.relname limit 1""")
    if owned is not None:
        raise _unfit(f"the role {name} owns the table {owned}", "the service needs a role that owns nothing")
    strong = await connection.fetchval("""
        select rolname from pg_roles
         where (rolsuper or rolbypassrls or rolname in ('kb_keyword', 'kb_queue'))
           and rolname <> current_user and pg_has_role(current_user, oid, 'member')
         order by rolname limit 1""")
    if strong is not None:
        raise _unfit(f"the role {name} is a member of {strong}, which sees other tenants' rows", "revoke that")


async def check_schema(connection: Connection) -> bool:
    """Whether a later release of this major version has migrated the database; False: it is at this version's revision.

    Raises ConfigurationError unless the migrations are applied and the role has the application's rights.
    """
    head = latest_revision()
    migrated = await connection.fetchval("select to_regclass('public.alembic_version') is not null")
    if not migrated:
        raise _unfit("the database is empty", "run: knowledge migrate")
    member = await connection.fetchval(
        "select exists (select from pg_roles where rolname = 'kb_app') and pg_has_role(current_user, 'kb_app', 'usage')"
    )
    if not member:
        name = await connection.fetchval("select current_user")
        raise _unfit(f"the role {name} lacks the application's rights", f"run: knowledge migrate --service-role {name}")
    if not await connection.fetchval("select has_table_privilege('alembic_version', 'select')"):
        raise _unfit("the role may not read the revision", "run: grant select on alembic_version to kb_reader")
    if await find_later(connection) is not None:
        return True
    revision = await connection.fetchval("select version_num from alembic_version")
    check_revision(revision, "DATABASE_URL")
    if revision != head:
        raise _unfit(f"the database is at revision {revision}, this version needs {head}", "run: knowledge migrate")
    return False


ROUNDS = 20
"""Tries to get the same connection to the server for two clients. An idle pooler needs one."""

OWN_PID = "select pg_backend_pid()"


@dataclass(frozen=True, slots=True)
class Pooler:
    """A pooler that gives a connection to another client after each transaction.

    `keeps_prepared`: it has the statements of each client prepared on every connection that it gives to the client.
    """

    keeps_prepared: bool


async def find_pooler(dsn: str, setting: str) -> Pooler | None:
    """The pooler at the address of `setting`, if there is one that shares connections.

    Raises ConfigurationError and DatabaseUnavailable.
    """
    async with using(await connect(dsn, setting)) as first:
        if await _is_direct(first):
            return None
        async with using(await connect(dsn, setting)) as second:
            return await _compare(first, second)


async def _is_direct(connection: Connection) -> bool:
    # A pooler gives each client a key of its own for cancellation, with a number that is not the server process's.
    return bool(await connection.fetchval(OWN_PID) == connection.get_server_pid())


async def _compare(first: Connection, second: Connection) -> Pooler | None:
    """Whether two clients come to the same server process, and can each have a prepared statement of one name there."""
    for _ in range(ROUNDS):
        name = f"pooler_{uuid4().hex}"
        try:
            async with first.transaction():
                prepared = await first.prepare(OWN_PID, name=name)
                before = await prepared.fetchval()
            async with second.transaction():
                other = await (await second.prepare(OWN_PID, name=name)).fetchval()
            after = await prepared.fetchval()
        except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError):
            return Pooler(keeps_prepared=False)
        if other == before or after not in (before, other):  # the statement was prepared on these two
            return Pooler(keeps_prepared=True)
    return None


async def check_pooler(dsn: str, *, prepared: bool) -> None:
    """Raise ConfigurationError if prepared statements are on and a pooler at DATABASE_URL loses them."""
    if prepared:
        check_keeps(await find_pooler(dsn, "DATABASE_URL"))


def check_keeps(pooler: Pooler | None) -> None:
    """Raise ConfigurationError if a pooler at DATABASE_URL loses prepared statements."""
    if pooler is not None and not pooler.keeps_prepared:
        raise ConfigurationError(
            "DATABASE_PREPARED_STATEMENTS",
            "the pooler at DATABASE_URL shares connections and keeps no prepared statements",
            "set it to off, or use PgBouncer 1.21 or newer with max_prepared_statements",
        )


async def check_direct(connection: Connection, dsn: str, setting: str) -> None:
    """Raise ConfigurationError if the address, to which the connection is open, is that of such a pooler.

    It would keep a lock of the session, which no later migration gets.
    """
    if not await _is_direct(connection) and await find_pooler(dsn, setting) is not None:
        raise ConfigurationError(
            setting,
            "this is the address of a pooler that shares connections",
            "migrations need the address of the database itself",
        )
