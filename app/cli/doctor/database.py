"""Checks of the database: server, schema, isolation, pooler and replicas."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, Status, count, from_error, size
from app.errors import ConfigurationError, DatabaseUnavailable, KnowledgeError

if TYPE_CHECKING:
    from app.db.rows import Connection
    from app.db.schema.catalog import Pooler
    from app.settings import Settings

NOTICED_SKEW, WRONG_SKEW = 2.0, 30.0
"""Seconds between two clocks above which tokens, leases and expiry of entries are inaccurate, or wrong."""


@asynccontextmanager
async def reach(settings: Settings) -> AsyncIterator[str]:
    """The service's address; joins or starts an embedded server, without migrating it. Raises ConfigurationError."""
    from app.composition.database import embedded_database

    if settings.database.url is not None:
        yield settings.database.url.get_secret_value()
        return
    async with embedded_database(settings.database.data_dir) as addresses:
        yield addresses.service


async def check_server(connection: Connection, settings: Settings, seconds: float) -> AsyncIterator[Finding]:
    """Version, size, clock and connections."""
    from app.db.queries import diagnosis

    asked = time.time()
    server = await diagnosis.read(diagnosis.Server, connection)
    answered = time.time()
    yield Finding(
        "database", "ok", f"Postgres {server.version}, {size(server.bytes)}, reached in {round(1000 * seconds)} ms"
    )
    # The server read its clock at some time between the request and the answer.
    there = server.now.timestamp()
    skew = max(0.0, asked - there, there - answered)
    detail = f"the database's clock differs by {skew:.1f} s from this machine's ({datetime.now(UTC):%H:%M:%S} UTC)"
    if skew < NOTICED_SKEW:
        yield Finding("clock", "ok", detail)
    else:
        status: Status = "wrong" if skew >= WRONG_SKEW else "warning"
        yield Finding("clock", status, detail, "synchronise both machines with NTP")
    yield check_connections(
        settings.database.pool_size, server.most_connections, server.connections, server.role_connections
    )


def check_connections(pool: int, most: int, used: int, role_limit: int) -> Finding:
    """Check that the pool fits into the limits of the server and of the role (-1: unlimited)."""
    bound = min(most, role_limit) if role_limit >= 0 else most
    # In addition to the pool, one connection listens for jobs.
    needed = pool + 1
    detail = f"up to {needed} for this process, of {bound} that the server allows; {used} in use in total"
    if needed > bound:
        return Finding("connections", "wrong", detail, "lower KB_DATABASE_POOL_SIZE, or raise max_connections")
    if used + needed > bound:
        return Finding(
            "connections",
            "warning",
            f"{detail}: another process may not get connections",
            "lower KB_DATABASE_POOL_SIZE of each process, raise max_connections, or put PgBouncer between",
        )
    return Finding("connections", "ok", detail)


async def check_extension(connection: Connection) -> Finding:
    """Check the version of pgvector, and whether the server has a newer one."""
    from app.db.queries import diagnosis
    from app.db.schema import catalog

    try:
        await catalog.check_server(connection)
    except ConfigurationError as error:
        return from_error("extension", error)
    vector = await diagnosis.read(diagnosis.Extension, connection)
    newer = vector.available not in (None, vector.installed)
    hint = f" ({vector.available} is available: alter extension vector update)" if newer else ""
    return Finding("extension", "ok", f"pgvector {vector.installed}{hint}")


async def check_role(connection: Connection) -> Finding:
    """Check that row-level security applies to the login role."""
    from app.db.schema import catalog

    role = await connection.fetchval("select current_user")
    try:
        await catalog.check_service_role(connection)
    except ConfigurationError as error:
        return from_error("role", error)
    return Finding("role", "ok", f"{role}; it owns nothing, and row-level security applies to it")


async def check_schema(connection: Connection, *, embedded: bool) -> Finding:
    """Check that all migrations are applied."""
    from app.db.schema import catalog
    from app.db.schema.lineage import check_objects
    from app.db.schema.scripts import latest_revision

    try:
        later = await catalog.check_schema(connection)
        await check_objects(connection, latest_revision(), "DATABASE_URL", later=later)
    except ConfigurationError as error:
        found = from_error("migrations", error)
        if embedded and error.remedy is not None and error.remedy.startswith("run: "):
            return replace(found, remedy="run: knowledge migrate (or start the service)")
        return found
    if later:
        return Finding(
            "migrations", "ok", f"at the revision of a later release; this version needs {latest_revision()}"
        )
    return Finding("migrations", "ok", f"at revision {latest_revision()}, the latest")


async def check_isolation(connection: Connection, address: str) -> AsyncIterator[Finding]:
    """Find missing protections between tenants, on every node of a Citus cluster."""
    from app.db.cluster import metadata
    from app.db.schema.isolation import SQL, find_faults

    correct = f"policies, keys, grants, views, functions, triggers and roles are correct ({count(len(SQL), 'rule')})"
    if not await metadata.is_distributed(connection):
        faults = await find_faults(connection)
        for fault in faults:
            yield Finding("isolation", "wrong", fault.text, fault.remedy)
        if not faults:
            yield Finding("isolation", "ok", correct)
        return
    try:
        await metadata.check_coordinator(connection, "DATABASE_URL")
    except ConfigurationError as error:
        yield from_error("isolation", error)
        return
    for node in await metadata.list_nodes(connection):
        try:
            async with metadata.connected(address, node, "DATABASE_URL") as there:
                await metadata.check_prepared(there, "DATABASE_URL")
                faults = await find_faults(there)
        except metadata.NodeUnreachable as error:
            yield from_error("isolation", error)
            continue
        except ConfigurationError as error:
            yield from_error("isolation", metadata.at_node(node, error))
            continue
        for fault in faults:
            yield Finding("isolation", "wrong", f"{node}: {fault.text}", f"on this node, {fault.remedy}")
        if not faults:
            yield Finding("isolation", "ok", f"{node}: {correct}")


def describe_failure(error: KnowledgeError) -> Finding:
    """The finding for a database that cannot be reached."""
    found = from_error("database", error)
    if isinstance(error, ConfigurationError) and error.setting and not error.remedy:
        return replace(found, remedy="start Postgres, or correct the address, name and password in DATABASE_URL")
    return found


DIRECT = "DATABASE_DIRECT_URL"
REMEDY = "correct DATABASE_DIRECT_URL"


def check_statements(settings: Settings, pooler: Pooler) -> Finding:
    """Check that prepared statements are off if the pooler loses them."""
    from app.db.schema.catalog import check_keeps

    used = settings.database.prepared_statements
    try:
        if used:
            check_keeps(pooler)
    except ConfigurationError as error:
        return from_error("pooler", error)
    kept = "keeps" if pooler.keeps_prepared else "does not keep"
    state = "on" if used else "off"
    return Finding("pooler", "ok", f"it shares connections and {kept} prepared statements, which are {state}")


async def check_notifications(settings: Settings, address: str, pooler: Pooler | None) -> list[Finding]:
    """Check that workers can hear of new jobs."""
    if settings.database.direct_url is not None:
        return [await _check_direct(settings.database.direct_url.get_secret_value(), address)]
    if pooler is None:
        return []
    return [
        Finding(
            "pooler",
            "warning",
            "it does not forward notifications of new jobs, so workers look for jobs once a second",
            f"set {DIRECT} to the address of the database itself",
        )
    ]


async def _check_direct(direct: str, address: str) -> Finding:
    """Check that it is the address of the same database, without a pooler."""
    import asyncpg

    from app.db.outage import AWAY
    from app.db.replicas import ask_once
    from app.db.schema.catalog import find_pooler

    try:
        if await find_pooler(direct, DIRECT) is not None:
            return Finding("pooler", "wrong", f"{DIRECT} is the address of a pooler, too", REMEDY)
        answer, expected = await ask_once(direct), await ask_once(address)
    except ConfigurationError as error:
        return from_error("pooler", error)
    except (*AWAY, asyncpg.PostgresError, DatabaseUnavailable) as error:
        return Finding("pooler", "wrong", f"{DIRECT} does not answer ({type(error).__name__})", REMEDY)
    if answer.place != expected.place or answer.replays:
        return Finding("pooler", "wrong", f"{DIRECT} is not the primary of DATABASE_URL", REMEDY)
    return Finding("pooler", "ok", f"workers listen for new jobs at {DIRECT}")


async def check_replicas(settings: Settings, primary: str) -> AsyncIterator[Finding]:
    """Check that each replica answers, belongs to the primary, isolates tenants, and is not far behind."""
    import asyncpg

    from app.composition.database import check_database, name_of
    from app.db.outage import AWAY
    from app.db.replicas import ask_once

    if not settings.database.replica_urls:
        return
    own = await ask_once(primary)
    for url in settings.database.replica_urls:
        address = url.get_secret_value()
        name = name_of(address)
        try:
            answer = await ask_once(address)
        except (*AWAY, asyncpg.PostgresError) as error:
            yield _wrong(f"{name} does not answer ({type(error).__name__})", "searches use the other servers")
            continue
        if not answer.replays or answer.place != own.place:
            yield _wrong(f"{name} is not a replica of DATABASE_URL", "correct DATABASE_REPLICA_URLS")
            continue
        try:
            await check_database(address)
        except ConfigurationError as error:
            yield _wrong(f"{name}: {error.problem}", error.remedy or "searches use the other servers")
            continue
        behind = max(0, (own.position or 0) - (answer.position or 0))
        yield Finding("replicas", "ok", f"{name} is {size(behind)} of the log behind DATABASE_URL")


def _wrong(detail: str, remedy: str) -> Finding:
    return Finding("replicas", "wrong", detail, remedy)
