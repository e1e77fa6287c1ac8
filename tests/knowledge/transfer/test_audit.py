"""The audit rows of an import, wherever it stops."""

from collections.abc import Iterator

import asyncpg
import orjson
import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.settings import DEFAULT_SETTINGS
from app.knowledge.transfer.records import TextLine
from app.knowledge.transfer.tenant import read_header
from tests.fixtures.database.cluster import execute, fetch
from tests.knowledge.transfer.packing import COUNTED, TABLES, export, restoration_of, restore, rows


class StopEarly(Exception):
    """The reader of the lines has disconnected."""


UNNOTED = """
select 'settings' as what, t.id::text from tenants t
 where t.id = $1 and t.settings <> '{}' and not exists (
   select from audit a where a.tenant_id = t.id and a.xmin = t.xmin and a.detail ->> 'part' = 'settings')
union all
select x.what, x.ids::text
  from (select 'asset' as what, xmin as written, array[id] as ids from assets where tenant_id = $1
        union all select 'entry', xmin, array[id] from entries where tenant_id = $1
        union all select 'accesses', xmin, array[entry_id] from access_counts where tenant_id = $1
        union all select 'saved search', xmin, array[id] from saved_searches where tenant_id = $1
        union all select 'feedback', xmin, array[search_id, entry_id] from feedback where tenant_id = $1) x
 where not exists (
   select from audit a where a.tenant_id = $1 and a.xmin = x.written and a.action = 'tenant.import'
      and a.actor = 'test' and a.subject_ids @> x.ids)
"""
"""Written rows that no audit row of the same transaction names."""


async def test_restoration_stopped_anywhere_has_audited_all_its_changes(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    lines = await export(services, full)

    async def find_unnoted() -> list[tuple[str, str]]:
        return [tuple(row) for row in await fetch(superuser_dsn, UNNOTED, other_tenant.id)]

    restoration = restoration_of(services, other_tenant)
    header = read_header(lines[0])
    assert header is not None

    def broken() -> Iterator[TextLine]:
        yield from (TextLine(number, line) for number, line in enumerate(lines[1:-4], 2))
        raise StopEarly

    with pytest.raises(StopEarly):
        await restoration.write(header, broken(), lambda _: None)
    assert await rows(superuser_dsn, "assets", other_tenant)
    assert await find_unnoted() == []
    before = await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text")
    assert (await restore(services, other_tenant, lines)).failed == 0
    assert await rows(superuser_dsn, "entries", other_tenant, "id, xmin::text") != before
    for table in TABLES:
        assert await rows(superuser_dsn, table, other_tenant), table
    assert await find_unnoted() == []


@pytest.mark.slow
async def test_restoration_that_cannot_be_audited_changes_nothing(
    services: Services, full: Tenant, other_tenant: Tenant, superuser_dsn: str
) -> None:
    header, *lines = await export(services, full)
    without_settings = orjson.dumps({**orjson.loads(header), "settings": {}})
    before = {table: await rows(superuser_dsn, table, other_tenant) for table in (*TABLES, *COUNTED)}
    await execute(superuser_dsn, "alter table audit add constraint full_up check (actor <> 'test') not valid")
    for first in (header, without_settings):
        with pytest.raises(asyncpg.CheckViolationError):
            await restore(services, other_tenant, [first, *lines])
    assert {table: await rows(superuser_dsn, table, other_tenant) for table in before} == before
    assert await services.tenants.read_settings(other_tenant.id) == DEFAULT_SETTINGS
