"""The database: reached, of the right version, migrated, and keeping tenants apart."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, Status, count, from_error, size
from app.errors import ConfigurationError, KnowledgeError

if TYPE_CHECKING:
    from app.db.queries.tenants.diagnosis import Connection
    from app.settings import Settings

NOTICED_SKEW, WRONG_SKEW = 2.0, 30.0
"""Seconds between two clocks from which tokens, leases and expiry of entries are a little, or badly, off."""


@asynccontextmanager
async def reach(settings: Settings) -> AsyncIterator[str]:
    """The service's address; an embedded server is joined or started, and not migrated. Raises ConfigurationError."""
    from app.composition.database import embedded_database

    if settings.database.url is not None:
        yield settings.database.url.get_secret_value()
        return
    async with embedded_database(settings.database.data_dir) as addresses:
        yield addresses.service


async def check_server(connection: Connection, settings: Settings, seconds: float) -> AsyncIterator[Finding]:
    """Version, size, clock and connections."""
    from app.db.queries.tenants import diagnosis

    asked = time.time()
    server = await diagnosis.read_server(connection)
    answered = time.time()
    yield Finding(
        "database",
        "ok",
        f"Postgres {server.version}, {size(server.bytes)}, reached in {round(1000 * seconds)} ms",
    )
    # The server read its clock somewhere between asking and answer.
    there = server.now.timestamp()
    skew = max(0.0, asked - there, there - answered)
    detail = f"the database's is {skew:.1f} s off this machine's ({datetime.now(UTC):%H:%M:%S} UTC)"
    if skew < NOTICED_SKEW:
        yield Finding("clock", "ok", detail)
    else:
        status: Status = "wrong" if skew >= WRONG_SKEW else "warning"
        yield Finding("clock", status, detail, "let both machines take their time from NTP")
    yield check_connections(
        settings.database.pool_size,
        server.most_connections,
        server.connections,
        server.role_connections,
    )


def check_connections(pool: int, most: int, used: int, role_limit: int) -> Finding:
    """Whether the pool fits into what the server, and the role (-1: no limit of its own), may have."""
    bound = min(most, role_limit) if role_limit >= 0 else most
    # Beside the pool: one that listens for jobs.
    needed = pool + 1
    detail = f"up to {needed} for this process, of {bound} that the server allows; {used} in use by all"
    if needed > bound:
        return Finding(
            "connections", "wrong", detail, "lower KB_DATABASE_POOL_SIZE, or raise max_connections"
        )
    if used + needed > bound:
        return Finding(
            "connections",
            "warning",
            f"{detail}: another process may not find room",
            "lower KB_DATABASE_POOL_SIZE of each process, raise max_connections, or put PgBouncer between",
        )
    return Finding("connections", "ok", detail)


async def check_extension(connection: Connection) -> Finding:
    """pgvector, and whether the server has a newer one."""
    from app.db.queries.tenants import diagnosis
    from app.db.schema import catalog

    try:
        await catalog.check_server(connection)
    except ConfigurationError as error:
        return from_error("extension", error)
    vector = await diagnosis.read_extension(connection)
    newer = vector.available not in (None, vector.installed)
    hint = f" ({vector.available} is there: alter extension vector update)" if newer else ""
    return Finding("extension", "ok", f"pgvector {vector.installed}{hint}")


async def check_role(connection: Connection) -> Finding:
    """Whether row-level security binds the role that is logged in."""
    from app.db.schema import catalog

    role = await connection.fetchval("select current_user")
    try:
        await catalog.check_service_role(connection)
    except ConfigurationError as error:
        return from_error("role", error)
    return Finding("role", "ok", f"{role}, which owns nothing and is bound by row-level security")


async def check_schema(connection: Connection, *, embedded: bool) -> Finding:
    """Whether all migrations are applied."""
    from app.db.schema import catalog
    from app.db.schema.migration import latest_revision

    try:
        await catalog.check_schema(connection)
    except ConfigurationError as error:
        found = from_error("migrations", error)
        return replace(found, remedy="run: knowledge migrate (or start the service)") if embedded else found
    return Finding("migrations", "ok", f"at revision {latest_revision()}, the latest")


async def check_isolation(connection: Connection) -> AsyncIterator[Finding]:
    """Each protection between tenants that is missing."""
    from app.db.schema.isolation import SQL, find_faults

    faults = await find_faults(connection)
    for fault in faults:
        yield Finding("isolation", "wrong", fault.text, fault.remedy)
    if not faults:
        rules = count(len(SQL), "rule")
        yield Finding("isolation", "ok", f"policies, keys, grants, views, functions and roles hold ({rules})")


def describe_failure(error: KnowledgeError) -> Finding:
    """The database could not be reached."""
    found = from_error("database", error)
    if isinstance(error, ConfigurationError) and error.setting and not error.remedy:
        return replace(found, remedy="start Postgres, or mend the address, name and password in DATABASE_URL")
    return found
