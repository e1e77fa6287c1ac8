"""Looks for a marker in every row of every table."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from app.composition.services import Services
from app.contract.erasures import Erasure
from tests.fixtures.database.cluster import Connection, connected

TABLES = """
select c.oid::regclass::text as name, a.attname is not null as of_tenant
  from pg_class c
  left join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1
"""


async def tables_of_tenants(connection: Connection) -> set[str]:
    """The tables that have a tenant_id."""
    return {row["name"] for row in await connection.fetch(TABLES) if row["of_tenant"]}


async def find_marker(dsn: str, marker: str) -> dict[str, int]:
    """How many rows of each table contain a text, in any column, also as bytes."""
    found = {}
    async with connected(dsn) as superuser:
        for table in await superuser.fetch(TABLES):
            rows = await superuser.fetchval(
                f"select count(*) from {table['name']} t where strpos(lower(t::text), lower($1)) > 0"
                " or strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0",
                marker,
            )
            if rows:
                found[table["name"]] = rows
    return found


async def look_again(services: Services, dsn: str, tenant_id: UUID, erasure: Erasure) -> Erasure:
    """Run the jobs of erasures now, and return the receipt after them."""
    async with connected(dsn) as superuser:
        await superuser.execute("update jobs set run_at = now() where kind = 'erase'")
    while await services.worker.run_once():
        pass
    return await services.erasures.get(tenant_id, erasure.id)


def removed(erasure: Erasure) -> Mapping[str, int]:
    """The places where something was removed."""
    return {place.place: place.removed for place in erasure.places if place.removed}


def found(erasure: Erasure) -> Mapping[str, Any]:
    """The places where the last look found something, or that it did not look at."""
    return {place.place: place.found for place in erasure.places if place.found != 0}
