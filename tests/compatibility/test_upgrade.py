"""A database of each released revision is upgraded to this version and served."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from app.composition.database import SERVICE, check_database, prepare
from app.composition.services import Services, build_services
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.schema.lineage import check_lineage
from app.db.schema.scripts import latest_revision
from app.embedded import EmbeddedAddress
from app.errors import EntryNotFound
from tests.compatibility.database import COMMAND, CONTENT, EVERY, FOLDER, MOVING, UNFINISHED, find_dump, restore
from tests.db.schema.fingerprint import digests, fingerprint, read_recorded
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, execute, fetchval, new_database
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import run_due
from tests.knowledge.reembedding.moving import WIDER

DUMPS = sorted(FOLDER.glob("*.sql.gz"))
REMEDY = f"the baseline has changed since the dump; before its release, run: {COMMAND}; after it, add a revision"
OF_THE_SERVER = ("database", "extension ", "member of ", "schema public")
"""What belongs to the server or to the role that restores, and is in no dump."""
TABLES = """
select c.oid::regclass::text as name from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1
"""


@dataclass(frozen=True, slots=True)
class Old:
    """The database of an older version, upgraded, with the services of this one."""

    services: Services
    tenant: UUID
    made: TestDatabase


@pytest.fixture(scope="module", params=DUMPS, ids=lambda path: path.name.partition(".")[0])
async def restored(
    request: pytest.FixtureRequest, cluster: EmbeddedAddress, template: str
) -> AsyncIterator[TestDatabase]:
    """The database as it was dumped; the server has the roles."""
    dump: Path = request.param
    async with new_database(cluster) as made:
        restore(dump, made)
        yield made


@pytest.fixture(scope="module")
async def upgraded(restored: TestDatabase) -> AsyncIterator[Old]:
    await prepare(restored.admin_dsn, service_role=SERVICE, model=MODEL)
    await check_database(restored.service_dsn)
    database = Database(restored.service_dsn, pool_size=4)
    services = await build_services(database, FailingProvider(MODEL), next_provider=FailingProvider(WIDER))
    yield Old(services, (await services.tenants.find(MOVING)).id, restored)
    await services.close()
    await database.close()


def test_the_newest_revision_has_a_dump() -> None:
    assert find_dump(latest_revision()) in DUMPS, f"run: {COMMAND}"


async def test_the_dump_has_rows_in_every_table(restored: TestDatabase) -> None:
    async with connected(restored.superuser_dsn) as superuser:
        assert await check_lineage(superuser, "DATABASE_URL") is not None, REMEDY
        tables = [row["name"] for row in await superuser.fetch(TABLES)]
        assert len(tables) > 30
        assert [name for name in tables if not await superuser.fetchval(f"select exists (select from {name})")] == []


async def test_an_upgraded_database_has_the_schema_of_a_new_one(upgraded: Old) -> None:
    await execute(upgraded.made.superuser_dsn, "analyze")
    parts = [part for part in await fingerprint(upgraded.made) if "embeddings_model_2" not in part[1]]
    found = {thing for thing, _ in digests(parts).items() ^ read_recorded().items()}
    assert not [thing for thing in sorted(found) if not thing.startswith(OF_THE_SERVER)], REMEDY


async def use(upgraded: Old) -> None:
    """Search, write, delete, and end the work that was in progress."""
    services, tenant = upgraded.services, upgraded.tenant
    query = SearchQuery(query="lock gate of the northern dock", duplicates="show")
    found = await services.search.search(tenant, query)
    assert len(found.results) == 8
    assert found.results[0].content.startswith(CONTENT)
    written, created = await services.entries.create(tenant, EntryDraft(content="A new buoy marks the shoal."))
    assert created
    changed = await services.entries.change(tenant, found.results[0].id, EntryDraft(title="Gate"))
    assert (changed.title, changed.version) == ("Gate", 2)
    await services.entries.delete(tenant, found.results[1].id)
    with pytest.raises(EntryNotFound):
        await services.entries.get(tenant, found.results[1].id)

    await execute(upgraded.made.superuser_dsn, "update jobs set run_at = now() where state = 'queued'")
    await run_due(services.worker)
    assert [asset.status for asset in (await services.assets.list_assets(tenant)).items] == ["indexed"]
    assert [each.state for each in (await services.erasures.list_erasures(tenant)).items] == ["done"]
    assert (await services.reembedding.status(tenant)).state == "ready"
    await services.reembedding.switch(tenant)
    for words, expected in (("new buoy shoal", written.content), ("floating crane", UNFINISHED.data.decode())):
        hits = (await services.search.search(tenant, SearchQuery(query=words))).results
        assert hits[0].content in expected
    assert await fetchval(upgraded.made.superuser_dsn, "select count(*) from jobs where state = 'failed'") == 0
    every = (await services.tenants.find(EVERY)).id
    assert (await services.search.search(every, SearchQuery(query="harbour at night"))).results


async def test_an_upgraded_database_is_searched_written_and_worked_on(upgraded: Old) -> None:
    with acting_for_service():
        await use(upgraded)
