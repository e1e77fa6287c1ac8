"""Conversion of values between Python and Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, SafeUUID

import asyncpg
import orjson
from pgvector.asyncpg import register_vector

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
        """Take what the driver passes."""
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
            "uuid",
            schema="pg_catalog",
            encoder=lambda value: value.bytes,
            decoder=_read_uuid,
            format="binary",
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
