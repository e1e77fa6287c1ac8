"""A tenant that outgrows exact search: background indexing, recall, and scans that end early."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import numpy as np
import pytest
from pgvector import HalfVector

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.database import Database
from app.db.queries import embeddings
from app.db.queries import embeddings as db
from app.db.queries.embeddings import PassageVector
from app.embedded import EmbeddedAddress
from app.embeddings.provider import Vector
from app.knowledge.entries.entry import embedding_text
from app.knowledge.search.plan import SearchDefaults
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected, execute, fetchval, new_database
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import semantic_leg_of

ENTRIES = 1_000
EXACT_LIMIT = 50


class Large:
    """A tenant over the exact limit, with known vectors."""

    def __init__(self, made: TestDatabase, services: Services, provider: FailingProvider, tenant: Tenant) -> None:
        self.made, self.services, self.provider, self.tenant = made, services, provider, tenant
        self.ids: list[UUID] = []
        self.vectors = np.empty((0, MODEL.dimensions), dtype=np.float32)

    async def work(self) -> None:
        """Run all queued work at once."""
        while True:
            await execute(self.made.superuser_dsn, "update jobs set run_at = now() where state = 'queued'")
            if not await self.services.worker.run_once():
                return

    async def search(self, query: str, limit: int = 10, **fields: object) -> SearchResult:
        wanted = SearchQuery(
            query=query,
            mode="semantic",
            limit=limit,
            similarity_threshold=0,
            explain=True,
            **fields,  # type: ignore[arg-type]
        )
        return await self.services.search.search(self.tenant.id, wanted)


@pytest.fixture(scope="module")
async def large(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Large]:
    async with new_database(cluster, template=template) as made:
        database = Database(made.service_dsn, pool_size=5)
        provider = FailingProvider(MODEL)
        services = await build_services(database, provider, defaults=SearchDefaults(exact_limit=EXACT_LIMIT))
        tenant = await services.tenants.create(NewTenant("large"), actor="test")
        large = Large(made, services, provider, tenant)
        texts = [f"entry number {n}" for n in range(ENTRIES)]
        for start in range(0, ENTRIES, 1_000):
            items = [
                EntryDraft(content=text, language="english", tags=[f"t{n % 100}"])
                for n, text in enumerate(texts[start : start + 1_000], start)
            ]
            results = await services.entries.create_many(tenant.id, items)
            large.ids += [r.id for r in results if r.id is not None]
        large.vectors = np.stack([await provider.embed_query(text) for text in texts])
        await large.work()
        yield large
        await services.close()
        await database.close()


def true_nearest(large: Large, query: Vector, count: int) -> list[UUID]:
    order = np.argsort(-(large.vectors @ query), kind="stable")[:count]
    return [large.ids[i] for i in order]


def strategy(result: SearchResult) -> str:
    return semantic_leg_of(result).strategy


async def test_tenant_that_outgrew_exact_search_is_indexed(large: Large) -> None:
    stats = await large.services.administration.stats(large.tenant.id)
    assert stats.passages == ENTRIES
    assert stats.indexed is True
    assert (stats.pending_embeddings, stats.jobs) == (0, 0)
    assert await fetchval(large.made.superuser_dsn, "select bool_and(in_index) from embeddings")


async def test_index_finds_nearly_all_that_exact_search_finds(large: Large) -> None:
    hits = wanted = 0
    for n in range(40):
        query = f"question {n}"
        result = await large.search(query)
        assert (strategy(result), result.metadata.exact) == ("indexed", False)
        expected = true_nearest(large, await large.provider.embed_query(query), 10)
        hits += len(set(expected) & {hit.id for hit in result})
        wanted += len(expected)
    assert hits / wanted >= 0.99


async def test_indexed_search_reads_the_index(large: Large) -> None:
    """By the server's counters: a plan that sorts every passage gives the same answer, only slowly."""
    scans = f"select idx_scan from pg_stat_user_indexes where indexrelname = 'embeddings_hnsw_1_{large.tenant.id.hex}'"
    backends = "select count(*) from pg_stat_activity where usename = 'kb_service' and datname = current_database()"
    async with connected(large.made.superuser_dsn) as superuser:

        async def count() -> int:
            # Backends report their counters at the latest when they end.
            await large.services.journal.flush()
            await large.services.database.engine.dispose()
            async with asyncio.timeout(60):
                while await superuser.fetchval(backends):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            return int(await superuser.fetchval(scans))

        before = await count()
        for n in range(5):
            await large.search(f"probe {n}")
        assert await count() >= before + 5


async def test_new_entries_of_an_indexed_tenant_go_to_the_index_at_once(large: Large) -> None:
    entry, _ = await large.services.entries.create(
        large.tenant.id, EntryDraft(content="a newcomer", external_id="newcomer")
    )
    twin, _ = await large.services.entries.create(
        large.tenant.id, EntryDraft(content="a newcomer", external_id="its twin")
    )
    result = await large.search("a newcomer")
    assert strategy(result) == "indexed"
    assert {hit.id for hit in list(result)[:2]} == {entry.id, twin.id}
    for made in (entry, twin):
        await large.services.entries.delete(large.tenant.id, made.id)
    assert not {entry.id, twin.id} & {hit.id for hit in await large.search("a newcomer")}


async def test_filter_with_few_matches_is_searched_exactly(large: Large) -> None:
    result = await large.search("question 1", limit=20, tags=["t7"])
    assert (strategy(result), result.metadata.exact) == ("exact_filtered", True)
    query = await large.provider.embed_query("question 1")
    tagged = [i for i in true_nearest(large, query, ENTRIES) if large.ids.index(i) % 100 == 7]
    similar = [i for i in tagged if large.vectors[large.ids.index(i)] @ query >= 0]
    assert [hit.id for hit in result] == similar[:20]


async def test_filter_with_many_matches_still_uses_the_index(large: Large) -> None:
    result = await large.search("question 1", tags=[f"t{n}" for n in range(90)])
    assert strategy(result) == "indexed"
    assert len(result) == 10
    assert all(large.ids.index(hit.id) % 100 < 90 for hit in result)


async def test_callers_can_set_ef_search(large: Large) -> None:
    for ef_search in (10, 1_000):
        result = await large.search("question 1", ef_search=ef_search)
        assert strategy(result) == "indexed"
        assert len(result) == 10


async def test_entry_with_many_near_passages_does_not_displace_others(large: Large) -> None:
    query = large.provider.vectors["crowded"] = large.provider.direction(*range(1, 17))
    hog, _ = await large.services.entries.create(large.tenant.id, EntryDraft(content="has many passages"))
    chance = np.random.default_rng(3)
    near = [query + 0.001 * chance.normal(size=MODEL.dimensions) for _ in range(200)]
    async with large.services.database.tenant_session(large.tenant.id) as session:
        assert not await db.list_pending(session, 1, None, 1)
        text_hash = await text_hash_of(large, hog.id)
        await db.store_vectors(
            session, 1, [PassageVector(hog.id, n, text_hash, 0, 1, HalfVector(v)) for n, v in enumerate(near, 1)]
        )
    large.services.tenants.forget(large.tenant.id)
    result = await large.search("crowded", limit=10)
    found = [hit.id for hit in result]
    assert found[0] == hog.id
    assert len(found) == len(set(found)) == 10
    assert result.metadata.total >= 30
    expected = true_nearest(large, query, 9)
    assert len(set(found[1:]) & set(expected)) >= 8
    await large.services.entries.delete(large.tenant.id, hog.id)


async def test_scan_that_ends_early_is_followed_by_an_exact_one(large: Large) -> None:
    """The index returns what it covers and ends; passages outside it must still be found."""
    query = large.provider.vectors["early end"] = large.provider.direction(1)
    near = [n for n in range(ENTRIES) if large.vectors[n] @ query >= 0]
    wanted = [f"t{n}" for n in range(6)]
    matching = {large.ids[n] for n in near if n % 100 < 6}
    all_matching = [n for n in range(ENTRIES) if n % 100 < 6]
    assert len(all_matching) > EXACT_LIMIT, "or the filter alone would make the search exact"
    lost = next(iter(matching))
    async with connected(large.made.superuser_dsn) as superuser:
        # Every vector of the tenant points towards the query, so that no distance ends the scan.
        await superuser.execute("create temporary table kept as select * from embeddings")
        await superuser.execute(
            "update embeddings set embedding = $1::text::halfvec", str([1.0] + [0.0] * (MODEL.dimensions - 1))
        )
        await superuser.execute("update embeddings set in_index = false where entry_id = $1", lost)
        try:
            result = await large.search("early end", limit=100, tags=wanted)
        finally:
            await superuser.execute(
                "update embeddings e set embedding = k.embedding, in_index = true from kept k"
                " where (e.tenant_id, e.entry_id, e.model_id, e.passage)"
                " = (k.tenant_id, k.entry_id, k.model_id, k.passage)"
            )
    assert (strategy(result), result.metadata.exact) == ("indexed_then_exact", True)
    assert {hit.id for hit in result} == {large.ids[n] for n in all_matching}


async def text_hash_of(large: Large, entry_id: UUID) -> bytes:
    async with connected(large.made.superuser_dsn) as superuser:
        value: bytes = await superuser.fetchval("select text_hash from entries where id = $1", entry_id)
        return value


async def test_vector_copied_while_the_index_is_finished_is_in_it(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str
) -> None:
    """A row written by an open transaction must not be missed when the index is declared complete."""
    await services.entries.create(tenant.id, EntryDraft(content="same", external_id="1"))
    failing_provider.down = True
    async with services.database.tenant_session(tenant.id) as session:
        await embeddings.create_index(session, 1)
        await embeddings.start_index(session, 1)
    # An entry with the same text that still waits for its vector, which will be a copy.
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into entries (tenant_id, id, entry_type, content, language, external_id, content_hash, text_hash)"
            " select tenant_id, gen_random_uuid(), entry_type, content, language, '2', content_hash, text_hash"
            " from entries"
        )
        await superuser.execute(
            "insert into pending_embeddings (tenant_id, model_id, entry_id)"
            " select tenant_id, 1, id from entries where external_id = '2'"
        )
        twin = await superuser.fetchval("select id from entries where external_id = '2'")

    async def finish() -> bool:
        async with services.database.tenant_session(tenant.id) as session:
            while await embeddings.move_batch(session, 1, 10):
                pass
        async with services.database.tenant_session(tenant.id) as session:
            return await embeddings.finish_index(session, 1)

    async with services.database.tenant_session(tenant.id) as session:
        assert await db.copy_known(session, 1, [twin]) == {twin}
        finishing = asyncio.create_task(finish())
        await asyncio.sleep(0.2)
    finished = await finishing
    outside = await fetchval(superuser_dsn, "select count(*) from embeddings where not in_index")
    assert not (finished and outside), "declared complete with a vector outside"


def test_embedded_text_of_an_entry_has_its_title_first() -> None:
    assert embedding_text("Title", "content") == "Title\n\ncontent"
    assert embedding_text(None, "content") == "content"
