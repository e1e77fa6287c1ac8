"""The index that a large tenant has of its own: when it is built, given up, repaired and dropped."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.queries import embeddings
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.upkeep import BUSY_SECONDS, Upkeep
from tests.fixtures.database.cluster import MODEL, PARTITIONS, Connection, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import semantic_leg_of

EXACT_LIMIT = 20

NAMES = "select relname from pg_class where relname like 'embeddings\\_hnsw\\_%' order by 1"
LEAF = "select tableoid::regclass::text from embeddings where tenant_id = $1 limit 1"
PLACE = f"""
select n from generate_series(0, {PARTITIONS - 1}) n
 where satisfies_hash_partition('embeddings'::regclass, {PARTITIONS}, n, $1::uuid)"""


class Stock:
    """Tenants of a service with a small exact limit."""

    def __init__(self, services: Services, superuser: Connection) -> None:
        self.services, self.superuser = services, superuser
        self.upkeep = Upkeep(services.database, services.tenants, services.jobs, exact_limit=EXACT_LIMIT)
        self.ids: dict[UUID, list[UUID]] = {}

    async def fill(self, tenant: Tenant, count: int) -> None:
        """Add entries to a tenant, and do all work that this causes."""
        drafts = [EntryDraft(content=f"{tenant.slug} {uuid4()}") for _ in range(count)]
        results = await self.services.entries.create_many(tenant.id, drafts)
        self.ids.setdefault(tenant.id, []).extend(result.id for result in results if result.id is not None)
        await self.work(tenant)

    async def shrink(self, tenant: Tenant, count: int) -> None:
        """Delete all entries of a tenant except `count`, and check its upkeep."""
        kept, gone = self.ids[tenant.id][:count], self.ids[tenant.id][count:]
        for entry_id in gone:
            await self.services.entries.delete(tenant.id, entry_id)
        self.ids[tenant.id] = kept
        await self.work(tenant)

    async def work(self, tenant: Tenant) -> None:
        await self.upkeep.check(tenant.id)
        while True:
            await self.superuser.execute("update jobs set run_at = now() where state = 'queued'")
            if not await self.services.worker.run_once():
                return

    async def index(self, tenant: Tenant) -> float | None:
        return await self.upkeep.index_vectors(tenant.id)

    async def names(self) -> list[str]:
        return [row["relname"] for row in await self.superuser.fetch(NAMES)]

    async def outside(self, tenant: Tenant) -> int:
        query = "select count(*) from embeddings where tenant_id = $1 and not in_index"
        return int(await self.superuser.fetchval(query, tenant.id))

    async def strategy(self, tenant: Tenant, query: str = "quay") -> tuple[str, bool]:
        wanted = SearchQuery(query=query, mode="semantic", similarity_threshold=0, limit=3, explain=True)
        result = await self.services.search.search(tenant.id, wanted)
        return semantic_leg_of(result).strategy, result.metadata.exact

    async def neighbour(self, tenant: Tenant) -> Tenant:
        """Another tenant in the same partition."""
        place = await self.superuser.fetchval(PLACE, tenant.id)
        while True:
            other = await self.services.tenants.create(NewTenant(f"n-{uuid4()}"), actor="test")
            if await self.superuser.fetchval(PLACE, other.id) == place:
                return other


@pytest.fixture
async def stock(database: Database, superuser_dsn: str) -> AsyncIterator[Stock]:
    defaults = SearchDefaults(exact_limit=EXACT_LIMIT)
    services = await build_services(database, FailingProvider(MODEL), defaults=defaults)
    async with connected(superuser_dsn) as superuser:
        yield Stock(services, superuser)
    await services.close()


def name_of(tenant: Tenant) -> str:
    return f"embeddings_hnsw_1_{tenant.id.hex}"


async def test_only_a_tenant_over_the_exact_limit_has_an_index(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT)
    assert await stock.names() == []
    assert await stock.strategy(tenant) == ("exact", True)
    await stock.fill(tenant, 1)
    assert await stock.names() == [name_of(tenant)]
    assert await stock.strategy(tenant) == ("indexed", False)
    assert await stock.outside(tenant) == 0
    definition = await stock.superuser.fetchval("select pg_get_indexdef($1::text::regclass)", name_of(tenant))
    owner = "select relowner::regrole::text from pg_class where relname = $1"
    assert f"WHERE ((tenant_id = '{tenant.id}'::uuid) AND (model_id = 1) AND in_index)" in definition
    assert await stock.superuser.fetchval(owner, name_of(tenant)) == "kb_migrator"


async def test_the_index_is_kept_until_the_tenant_has_half_of_the_limit(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT + 5)
    await stock.shrink(tenant, EXACT_LIMIT // 2 + 1)
    assert await stock.names() == [name_of(tenant)]
    assert await stock.strategy(tenant) == ("exact", True)
    await stock.shrink(tenant, EXACT_LIMIT // 2)
    assert await stock.names() == []
    assert await stock.outside(tenant) == EXACT_LIMIT // 2
    assert not (await stock.services.tenants.context(tenant.id)).indexed
    await stock.fill(tenant, EXACT_LIMIT)
    assert await stock.names() == [name_of(tenant)]
    assert await stock.outside(tenant) == 0


async def test_a_deleted_tenant_leaves_no_index(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT + 1)
    await stock.services.tenants.delete(tenant.id, actor="test")
    assert await stock.names() == []


async def test_an_index_in_use_at_the_deletion_is_dropped_by_the_next_sweep(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT + 1)
    leaf = await stock.superuser.fetchval(LEAF, tenant.id)
    async with stock.superuser.transaction():
        await stock.superuser.execute(f"lock table {leaf} in access share mode")
        await stock.services.tenants.delete(tenant.id, actor="test")
        assert await stock.names() == [name_of(tenant)]
    await stock.services.worker.sweep.run()
    assert await stock.names() == []


@pytest.mark.parametrize(
    "damage", ["drop index {}", "update pg_index set indisvalid = false where indexrelid = '{}'::regclass"]
)
async def test_a_missing_or_invalid_index_is_built_again(stock: Stock, tenant: Tenant, damage: str) -> None:
    await stock.fill(tenant, EXACT_LIMIT + 1)
    await stock.superuser.execute(damage.format(name_of(tenant)))
    await stock.work(tenant)
    valid = "select indisvalid from pg_index where indexrelid = $1::text::regclass"
    assert await stock.superuser.fetchval(valid, name_of(tenant)) is True
    assert await stock.outside(tenant) == 0
    assert await stock.strategy(tenant) == ("indexed", False)


async def test_a_build_waits_for_writers_of_the_partition_for_a_bounded_time(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT)
    leaf = await stock.superuser.fetchval(LEAF, tenant.id)
    async with stock.superuser.transaction():
        await stock.superuser.execute(f"lock table {leaf} in row exclusive mode")
        await stock.services.entries.create(tenant.id, EntryDraft(content="one more"))
        assert await stock.index(tenant) == BUSY_SECONDS
        assert await stock.names() == []
        assert await stock.strategy(tenant) == ("exact", True)
    assert await stock.index(tenant) is None
    assert await stock.names() == [name_of(tenant)]


async def test_only_one_index_is_built_at_a_time(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT)
    await stock.services.entries.create(tenant.id, EntryDraft(content="one more"))
    async with stock.superuser.transaction():
        await stock.superuser.fetchval("select pg_advisory_xact_lock($1)", embeddings.TURN)
        assert await stock.index(tenant) == BUSY_SECONDS
        # The state between two steps: searches are exact, and find the vectors inside and outside.
        assert await stock.names() == [name_of(tenant)]
        assert await stock.strategy(tenant) == ("exact", True)
    assert await stock.index(tenant) is None
    assert await stock.strategy(tenant) == ("indexed", False)


async def test_an_interrupted_build_continues(stock: Stock, tenant: Tenant) -> None:
    await stock.fill(tenant, EXACT_LIMIT + 1)
    await stock.superuser.execute("update vector_statistics set index_state = 'building'")
    await stock.superuser.execute(
        "update embeddings set in_index = false where entry_id in (select id from entries limit 7)"
    )
    stock.services.tenants.forget(tenant.id)
    assert await stock.strategy(tenant) == ("exact", True)
    await stock.work(tenant)
    assert await stock.outside(tenant) == 0
    assert await stock.strategy(tenant) == ("indexed", False)


async def test_a_search_that_believes_in_a_given_up_index_finds_newer_entries(stock: Stock, tenant: Tenant) -> None:
    """Another process gives up the index; this one has the old state in its cache for some seconds."""
    await stock.fill(tenant, EXACT_LIMIT + 5)
    assert (await stock.services.tenants.context(tenant.id)).indexed
    async with stock.services.database.tenant_session(tenant.id) as session:
        await embeddings.give_up_index(session, 1)
    await stock.services.entries.create(tenant.id, EntryDraft(content="the newcomer"))
    wanted = SearchQuery(query="the newcomer", mode="semantic", explain=True)
    assert (await stock.services.tenants.context(tenant.id)).indexed
    result = await stock.services.search.search(tenant.id, wanted)
    assert (semantic_leg_of(result).strategy, result.metadata.exact) == ("indexed_then_exact", True)
    assert result.results[0].content == "the newcomer"


@pytest.mark.slow
async def test_a_neighbour_in_the_partition_changes_nothing_of_a_search(stock: Stock, tenant: Tenant) -> None:
    """Strategy, `exact` and the pages that the index scan reads are the same with and without the neighbour's vectors,
    which lie exactly where the search looks."""
    await stock.fill(tenant, 200)
    neighbour = await stock.neighbour(tenant)
    vector = await stock.services.provider.embed_query("quay")

    async def observe() -> tuple[tuple[str, bool], int]:
        statement = (
            "explain (analyze, buffers, format json) select entry_id from embeddings"
            f" where tenant_id = '{tenant.id}'::uuid and model_id = 1 and in_index"
            f" order by embedding::halfvec(16) <=> '{list(map(float, vector))}'::halfvec(16) limit 30"
        )
        async with stock.superuser.transaction():
            await stock.superuser.execute("set local enable_sort = off; set local enable_seqscan = off")
            await stock.superuser.execute(statement)
            plan = str(await stock.superuser.fetchval(statement))
        assert f'"Index Name": "{name_of(tenant)}"' in plan
        hit, read = (int(plan.split(f'"Shared {kind} Blocks": ')[1].split(",")[0]) for kind in ("Hit", "Read"))
        return await stock.strategy(tenant), hit + read

    await stock.superuser.execute("vacuum analyze embeddings")
    before = await observe()
    stock.services.provider.vectors.update(  # type: ignore[attr-defined]
        {f"near {n}": vector for n in range(400)}
    )
    drafts = [EntryDraft(content=f"near {n}") for n in range(400)]
    await stock.services.entries.create_many(neighbour.id, drafts)
    await stock.work(neighbour)
    assert await stock.strategy(neighbour) == ("indexed", False)
    assert await stock.names() == sorted([name_of(tenant), name_of(neighbour)])
    assert await observe() == before
