"""Engines: creating one for a database address, and taking a connection from its pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from app.db.codecs import DriverConnection

ROLE = "role of the last transaction"
"""The key of a connection's `info` under which its last role is."""

RECYCLE_SECONDS = 1_800
"""Age at which the pool itself replaces a connection when a caller takes it: none lives for ever."""


def make_engine(dsn: str, *, connect_args: Mapping[str, Any] | None = None, **options: Any) -> AsyncEngine:
    """An engine for a `postgresql://` address.

    The driver parses the address itself: SQLAlchemy would pass `sslmode` and similar options as arguments that the
    driver does not accept.
    """
    return create_async_engine(
        "postgresql+asyncpg://",
        connect_args={
            **(connect_args or {}),
            "dsn": driver_address(dsn),
            "connection_class": DriverConnection,
        },
        **options,
    )


def make_pool(
    dsn: str, size: int, pool_timeout: float, connect_timeout: float, *, prepared_statements: bool
) -> AsyncEngine:
    """An engine with `size` connections; times are in seconds."""
    return make_engine(
        dsn,
        pool_size=size,
        max_overflow=0,
        # The most recently used connection has its plans ready and its caches warm.
        pool_use_lifo=True,
        pool_timeout=pool_timeout,
        pool_recycle=RECYCLE_SECONDS,
        hide_parameters=True,
        connect_args={
            "timeout": connect_timeout,
            "statement_cache_size": 512 if prepared_statements else 0,
            "prepared_statement_cache_size": 0,
        },
    )


def driver_address(dsn: str) -> str:
    """A database address as the driver reads it, without the name of the driver that SQLAlchemy expects."""
    return dsn.replace("postgresql+asyncpg://", "postgresql://", 1)


async def take_connection(engine: AsyncEngine, role: str | None = None) -> PoolProxiedConnection:
    """A connection of the engine's pool, without SQLAlchemy's other layers: they double the cost of a transaction.

    With `role`, it is the last of the idle ones that were used with this role: a connection makes all its plans again
    when its role changes, which takes as long as a search. Without such a connection, it is the one that has been idle
    longest. Raises the driver's own errors, OSError, and SQLAlchemy's TimeoutError of the pool.
    """
    taken = await _take(engine)
    if role is None:
        return taken
    others: list[PoolProxiedConnection] = []
    pool = engine.sync_engine.pool
    try:
        while taken.info.get(ROLE, role) != role and isinstance(pool, QueuePool) and pool.checkedin():
            others.append(taken)
            try:
                taken = await _take(engine)
            except Exception:  # one that grew old, and could not be replaced
                taken = others.pop()
                break
    finally:
        for other in reversed(others):
            other.close()
    taken.info[ROLE] = role
    return taken


async def _take(engine: AsyncEngine) -> PoolProxiedConnection:
    try:
        return await engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as error:  # only those layers would make a DBAPIError of it
        raise error.__cause__ or error from None
