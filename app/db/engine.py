"""Engines: creating one for a database address, and taking a connection from its pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolProxiedConnection

from app.db.codecs import DriverConnection

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


async def take_connection(engine: AsyncEngine) -> PoolProxiedConnection:
    """A connection of the engine's pool, without SQLAlchemy's other layers: they double the cost of a transaction.

    Raises the driver's own errors, OSError, and SQLAlchemy's TimeoutError of the pool.
    """
    try:
        return await engine.raw_connection()
    except engine.dialect.loaded_dbapi.Error as error:  # only those layers would make a DBAPIError of it
        raise error.__cause__ or error from None
