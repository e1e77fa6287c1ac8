"""Open the database: prepare the embedded one, or check the configured one with its replicas or nodes."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from app.composition.providers import configured_model
from app.concurrency.part import LastWrites, Part
from app.db.cluster.distribution import DEFAULT_SHARDS, prepare_nodes
from app.db.cluster.metadata import check_cluster, check_nodes, has_citus
from app.db.cluster.moves import read_state
from app.db.database import Database
from app.db.outage import AWAY
from app.db.replicas import Probe, Replica, Replicas
from app.db.rows import Connection
from app.db.schema import catalog
from app.db.schema.catalog import check_direct, check_pooler
from app.db.schema.definitions import digest_definitions, find_changed_functions
from app.db.schema.isolation import check_isolation
from app.db.schema.lineage import check_lineage, check_objects
from app.db.schema.owner import register_model
from app.db.schema.scripts import function_files, function_script, latest_revision
from app.db.schema.seal import read_seal, write_seal
from app.embedded import DATABASE, read_or_create_secret
from app.embedded.server import EmbeddedPostgres
from app.embeddings.provider import EmbeddingModel
from app.errors import ConfigurationError, DatabaseUnavailable
from app.kernel import count_cores
from app.knowledge.administration.cluster import Cluster
from app.settings import Settings

log = logging.getLogger(__name__)

MIGRATOR = "kb_migrator"
SERVICE = "kb_service"
# Large objects belong to no tenant. The server's functions that create them are open to all roles by default.
LARGE_OBJECTS = "revoke execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) from public"
CHECK_SECONDS = 30.0
"""A database that has not answered the check by then is not used."""
# Embedded start-ups in several processes prepare the database one after the other.
PREPARATION_LOCK = 0x6B625F70726570


@dataclass(frozen=True, slots=True)
class DatabaseAddresses:
    """Connection strings of the service and of its administration (None: not configured)."""

    service: str = field(repr=False)
    admin: str | None = field(repr=False)


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[DatabaseAddresses]:
    """Start or join the embedded Postgres and migrate it, or use the database in DATABASE_URL.

    Raises ConfigurationError with the problem and its remedy.
    """
    if settings.database.url is not None:
        service, admin = settings.database.url.get_secret_value(), settings.database.admin_url
        await check_pooler(service, prepared=settings.database.prepared_statements)
        yield DatabaseAddresses(service, admin.get_secret_value() if admin else None)
        return
    async with embedded_database(settings.database.data_dir) as addresses:
        assert addresses.admin is not None
        await prepare(addresses.admin, service_role=SERVICE, model=configured_model(settings), setting="KB_DATA_DIR")
        yield addresses


@contextlib.asynccontextmanager
async def embedded_database(
    data_dir: Path, server_settings: Mapping[str, str] | None = None
) -> AsyncIterator[DatabaseAddresses]:
    """Use the embedded Postgres of `data_dir`, with the same roles as on a managed Postgres."""
    server = EmbeddedPostgres(data_dir, settings=server_settings or {})
    address = await asyncio.to_thread(server.start)
    try:
        passwords = {role: read_or_create_secret(data_dir / f"{role}-password") for role in (MIGRATOR, SERVICE)}
        await create_roles(address.dsn(), passwords)
        yield DatabaseAddresses(
            service=address.dsn(SERVICE, DATABASE, passwords[SERVICE]),
            admin=address.dsn(MIGRATOR, DATABASE, passwords[MIGRATOR]),
        )
    finally:
        await asyncio.to_thread(server.stop)


async def create_roles(superuser_dsn: str, passwords: Mapping[str, str]) -> None:
    """Create the two login roles and the extension, as `deploy/roles.sql` does on a managed server.

    Raises ConfigurationError for a database of another lineage.
    """
    connection = await asyncpg.connect(superuser_dsn)
    try:
        async with connection.transaction():
            await connection.execute(f"select pg_advisory_xact_lock({PREPARATION_LOCK})")
            await check_lineage(connection, "KB_DATA_DIR")
            for role, rights in ((MIGRATOR, "createrole"), (SERVICE, "nocreaterole")):
                quoted = await connection.fetchval("select quote_literal($1::text)", passwords[role])
                exists = await connection.fetchval("select exists (select from pg_roles where rolname = $1)", role)
                verb = "alter" if exists else "create"
                await connection.execute(f"{verb} role {role} login {rights} password {quoted}")
            database = await connection.fetchval("select quote_ident(current_database())")
            await connection.execute(f"alter database {database} owner to {MIGRATOR}")
            await connection.execute(f"revoke temporary on database {database} from public; {LARGE_OBJECTS}")
            await connection.execute("create extension if not exists vector")
    finally:
        await connection.close()


async def prepare(
    admin_dsn: str,
    *,
    service_role: str | None,
    model: EmbeddingModel | None,
    shards: int = DEFAULT_SHARDS,
    setting: str = "DATABASE_ADMIN_URL",
) -> None:
    """Migrate, grant the application's rights to `service_role`, and register the model, each only if needed.

    On the coordinator of a Citus cluster, also distribute each table over `shards` shards, and prepare every node.

    Raises ConfigurationError, which names `setting`, for an unsuitable server or a database of another lineage, and
    DatabaseUnavailable.
    """
    async with catalog.using(await catalog.connect(admin_dsn, setting)) as connection:
        await check_direct(connection, admin_dsn, setting)
        await connection.execute(f"select pg_advisory_lock({PREPARATION_LOCK})")
        await catalog.check_server(connection)
        is_cluster = await has_citus(connection)
        if is_cluster:
            await check_cluster(connection, admin_dsn, setting)
        try:
            if await check_lineage(connection, setting) != latest_revision():
                from app.db.schema.migration import migrate

                await migrate(admin_dsn, setting=setting)
        except asyncpg.InsufficientPrivilegeError as error:
            raise ConfigurationError(
                setting, "the role lacks privileges that the migrations need", "see deploy/roles.sql"
            ) from error
        grant = partial(_grant, service_role=service_role)
        if is_cluster:
            await prepare_nodes(connection, admin_dsn, shards, setting, grant)
        else:
            restored = await _restore_functions(connection)
            await grant(connection)
            seal = await read_seal(connection)
            if restored or seal is None or seal.revision != latest_revision():
                await write_seal(connection, await digest_definitions(connection))
        if model is not None:
            await register_model(admin_dsn, model, actor="service")


async def _restore_functions(connection: Connection) -> bool:
    """Load functions again that differ from their text here, e.g. after a newer version has been downgraded.

    Returns whether there was one.
    """
    changed = await find_changed_functions(connection)
    for function in changed:
        log.warning("the function %s differs from its text, and is created again", function)
        async with connection.transaction():
            await connection.execute(function_script(function_files()[function], function))
    return bool(changed)


async def _grant(connection: Connection, service_role: str | None) -> None:
    if service_role is None:
        return
    if not await connection.fetchval("select exists (select from pg_roles where rolname = $1)", service_role):
        raise ConfigurationError("--service-role", f"there is no role {service_role}")
    if not await connection.fetchval("select pg_has_role($1, 'kb_app', 'usage')", service_role):
        quoted = await connection.fetchval("select quote_ident($1)", service_role)
        await connection.execute(f"grant kb_app to {quoted}")


def make_database(settings: Settings, service_dsn: str, part: Part | None = None) -> Database:
    """The service's database; one of several processes has its share of the connections."""
    pool_size = settings.database.pool_size
    return Database(
        service_dsn,
        pool_size=pool_size if part is None else part.share_of(pool_size),
        pool_timeout=settings.database.timeout,
        connect_timeout=settings.database.timeout,
        statement_timeout=settings.database.statement_timeout,
        prepared_statements=settings.database.prepared_statements,
        crowd=settings.limits.crowd or count_cores(),
        part=part,
    )


@contextlib.asynccontextmanager
async def small_pool(service_dsn: str, settings: Settings) -> AsyncIterator[Database]:
    """Open a database with two connections, for one command."""
    database = Database(service_dsn, pool_size=2, prepared_statements=settings.database.prepared_statements)
    try:
        await database.join_cluster()
        yield database
    finally:
        await database.close()


async def check_database(service_dsn: str) -> None:
    """Raise ConfigurationError unless the database is usable with a role to which row-level security applies.

    All nodes of a Citus cluster are checked, except those that do not answer. Raises DatabaseUnavailable.
    """
    async with catalog.using(await catalog.connect(service_dsn, "DATABASE_URL")) as connection:
        await _check_connection(connection)
        await check_nodes(connection, service_dsn, "DATABASE_URL", _check_connection)


async def check_given(database: Database) -> None:
    """As `check_database`, for a database that is open already."""
    if database.is_lent:
        await check_engine(database.engine)
    else:
        await check_database(database.dsn)


async def check_engine(engine: AsyncEngine) -> None:
    """As `check_database`, for an engine that a host application lends."""
    try:
        async with engine.connect() as pooled:
            driver: Any = (await pooled.get_raw_connection()).driver_connection
            await _check_connection(driver)
    except ConfigurationError as error:
        raise ConfigurationError("engine", error.problem, error.remedy) from None
    except AWAY as error:
        raise DatabaseUnavailable from error


async def _check_connection(connection: Connection) -> None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await catalog.check_server(connection)
            await catalog.check_service_role(connection)
            later = await catalog.check_schema(connection)
            await check_objects(connection, latest_revision(), "DATABASE_URL", later=later)
            await check_isolation(connection)
    except TimeoutError as error:
        raise ConfigurationError(
            "DATABASE_URL", f"the database did not answer its check within {CHECK_SECONDS:.0f} s"
        ) from error


@contextlib.asynccontextmanager
async def replicas_of(database: Database, settings: Settings, part: Part | None) -> AsyncIterator[None]:
    """While the block runs, searches read from the replicas in DATABASE_REPLICA_URLS that can serve them.

    Raises ConfigurationError.
    """
    addresses = [address.get_secret_value() for address in settings.database.replica_urls]
    if not addresses:
        yield
        return
    if database.nodes is not None:
        raise ConfigurationError(
            "DATABASE_REPLICA_URLS", "searches of a Citus cluster do not read from replicas", "remove it"
        )
    replicas = [
        Replica(name_of(address), make_database(settings, address, part), Probe(address)) for address in addresses
    ]
    database.replicas = Replicas(
        Probe(database.dsn),
        replicas,
        staleness=settings.database.replica_staleness,
        check=check_database,
        writes=LastWrites(None if part is None else part.memory.last_writes),
    )
    try:
        async with database.replicas.watched():
            yield
    finally:
        database.replicas = None


def name_of(address: str) -> str:
    """The host and the port of an address, without secret parts."""
    parts = urlsplit(address)
    hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", []))
    return hosts or "local"


SETTING = "DATABASE_ADMIN_URL"


@contextlib.asynccontextmanager
async def open_cluster(settings: Settings, *, for_moves: bool = False) -> AsyncIterator[Cluster]:
    """Connect to the coordinator; `for_moves` requires a role that sees all rows. Raises ConfigurationError."""
    address = settings.database.admin_url
    if address is None:
        if settings.database.embedded:
            raise ConfigurationError(None, "the embedded database is one server, not a Citus cluster")
        raise ConfigurationError(SETTING, "must be set to the role that owns the tables, on the coordinator")
    dsn = address.get_secret_value()

    @contextlib.asynccontextmanager
    async def connect(host: str, port: int) -> AsyncIterator[Connection]:
        async with catalog.using(await catalog.connect(dsn, SETTING, host=host, port=port)) as connection:
            yield connection

    async with catalog.using(await catalog.connect(dsn, SETTING)) as coordinator:
        state = await read_state(coordinator)
        if state is None:
            raise ConfigurationError(SETTING, "the database is one server, not a Citus cluster")
        if not state.coordinator:
            raise ConfigurationError(SETTING, "leads to a worker of the cluster", "use the coordinator's address")
        if not state.distributed:
            raise ConfigurationError(SETTING, "the tables are not distributed yet", "run: knowledge migrate")
        await check_lineage(coordinator, SETTING)
        if for_moves and not state.sees_all_rows:
            raise ConfigurationError(
                SETTING,
                "row-level security applies to the role, so a move would copy none of the tenants' rows",
                "use a superuser of the cluster for this command",
            )
        try:
            yield Cluster(coordinator, connect)
        except asyncpg.PostgresConnectionError as error:
            if coordinator.is_closed():
                raise
            raise ConfigurationError(
                None, "the coordinator cannot reach a node of the cluster", "run: knowledge nodes"
            ) from error
