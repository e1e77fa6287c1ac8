"""Create engines and connection pools, convert values, and take connections from a pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID, SafeUUID

import asyncpg
import orjson
from pgvector.asyncpg import register_vector
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

# What asyncpg asks about a type that it does not know, with the types that it consists of. Its own query looks at every
# type with every table, which takes seconds on a node of a cluster, where each shard of each table has two types.
DESCRIBE_TYPES = """
    with recursive parts (oid, depth) as (
      select given, 0 from unnest($1::oid[]) given
      union
      select p.oid, parts.depth + 1
        from parts
        join pg_catalog.pg_type t on t.oid = parts.oid
       cross join lateral (
         select t.typelem where t.typelem <> 0
         union all
         select t.typbasetype where t.typbasetype <> 0
         union all
         select r.rngsubtype from pg_catalog.pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
         union all
         select a.atttypid from pg_catalog.pg_attribute a
          where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) p (oid)
    )
    select t.oid, n.nspname as ns, t.typname as name, t.typtype as kind, nullif(t.typbasetype, 0) as basetype,
           t.typelem as elemtype, e.typdelim as elemdelim,
           r.rngsubtype as range_subtype, fields.types as attrtypoids, fields.names as attrnames, parts.depth,
           nullif(t.typbasetype, 0)::regtype::text as basetype_name, t.typelem::regtype::text as elemtype_name,
           r.rngsubtype::regtype::text as range_subtype_name
      from (select oid, max(depth) as depth from parts group by oid) parts
      join pg_catalog.pg_type t on t.oid = parts.oid
      join pg_catalog.pg_namespace n on n.oid = t.typnamespace
      left join pg_catalog.pg_type e on t.typlen = -1 and t.typelem <> 0 and e.oid = t.typelem
      left join pg_catalog.pg_range r on t.oid in (r.rngtypid, r.rngmultitypid)
      left join lateral (
        select array_agg(a.atttypid order by a.attnum) as types, array_agg(a.attname::text order by a.attnum) as names
          from pg_catalog.pg_attribute a
         where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) fields on true
     order by parts.depth desc
"""


class DriverConnection(_Connection):
    """The driver's connection, which asks quickly about the types of parameters and columns."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Accept the arguments of the driver."""
        super().__init__(*args, **options)
        self._intro_query = DESCRIBE_TYPES


def register_types(dbapi_connection: Any, _record: Any) -> None:
    """Set the codecs of a new connection; a listener for SQLAlchemy's event `connect`."""
    dbapi_connection.run_async(_set_codecs)


async def _set_codecs(driver: asyncpg.Connection[asyncpg.Record]) -> None:
    """Vectors are transferred in binary. JSON is sent as text from the caller, and read as plain values.

    UUIDs are of the standard library's class, since orjson cannot serialise the driver's subclass.
    """
    try:
        await register_vector(driver)
        await driver.set_type_codec(
            "uuid", schema="pg_catalog", encoder=lambda value: value.bytes, decoder=_read_uuid, format="binary"
        )
        await driver.set_type_codec(
            "jsonb",
            schema="pg_catalog",
            encoder=lambda text: b"\x01" + text.encode(),
            decoder=lambda data: orjson.loads(data[1:]),
            format="binary",
        )
        await driver.set_type_codec(
            "json", schema="pg_catalog", encoder=str.encode, decoder=orjson.loads, format="binary"
        )
    except BaseException:
        driver.terminate()  # the pool closes only connections that it has accepted
        raise


def _read_uuid(data: bytes, _set: Any = object.__setattr__, _safety: Any = SafeUUID.unknown) -> UUID:
    """`UUID(bytes=data)` in a third of the time; a search reads a hundred of them."""
    read = UUID.__new__(UUID)
    _set(read, "int", int.from_bytes(data))
    _set(read, "is_safe", _safety)
    return read


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
        connect_args={**(connect_args or {}), "dsn": driver_address(dsn), "connection_class": DriverConnection},
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
            except Exception:  # it grew old and could not be replaced
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
    except engine.dialect.loaded_dbapi.Error as error:  # only SQLAlchemy's layers would turn it into a DBAPIError
        raise error.__cause__ or error from None
