"""Two tenants with rows in every table, ready to be copied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

import pytest

from app.composition.services import build_services
from app.db.database import Database
from app.embedded import EmbeddedAddress
from tests.db.cluster import MODEL, TestDatabase, connected, new_database
from tests.db.tenant_rows import fill_tenant
from tests.knowledge.provider import FailingProvider

TENANT_TABLES = """
select c.oid::regclass::text as name from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
 order by 1"""


@dataclass(frozen=True, slots=True)
class Seeded:
    """A database in which tenants `first` and `second` have rows in every one of `tables`."""

    database: TestDatabase
    first: UUID
    second: UUID
    tables: tuple[str, ...]


@pytest.fixture(scope="session")
async def seeded_template(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Seeded]:
    """The seeded database itself: never connect to it, copy it."""
    async with new_database(cluster, template=template) as made:
        database = Database(made.service_dsn)
        provider = FailingProvider(MODEL)
        services = await build_services(database, provider)
        first = await services.tenants.create("first", actor="test")
        second = await services.tenants.create("second", actor="test")
        for tenant in (first, second):
            await fill_tenant(services, tenant, provider, made.superuser_dsn)
        await services.close()
        await database.close()
        async with connected(made.superuser_dsn) as superuser:
            tables = tuple(row["name"] for row in await superuser.fetch(TENANT_TABLES))
        yield Seeded(made, first.id, second.id, tables)


@pytest.fixture(scope="module")
async def seeded(cluster: EmbeddedAddress, seeded_template: Seeded) -> AsyncIterator[Seeded]:
    """A copy of the seeded database for the tests of one module, which undo what they do."""
    async with new_database(cluster, template=seeded_template.database.name) as made:
        yield Seeded(made, seeded_template.first, seeded_template.second, seeded_template.tables)
