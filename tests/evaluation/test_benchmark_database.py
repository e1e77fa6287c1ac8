"""The database of the speed benchmark: its contents and how it is built."""

import numpy as np
import pytest

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.db.database import Database
from benchmarks.corpus.construction import analyze, build_tenants
from benchmarks.corpus.population import MEASURED, Population, entry_number, find_tenant, plan_tenants
from benchmarks.corpus.stock import BATCH, RARE, Stock, is_rare
from tests.evaluation.samples import ORIGINALS, hide_progress, make_stock
from tests.fixtures.database.cluster import connected


def make_many() -> Stock:
    """Thirty texts with vectors of their own."""
    return make_stock([ORIGINALS[n % 2].text for n in range(30)])


def test_the_population_is_skewed_and_has_the_measured_tenants() -> None:
    tenants = plan_tenants()
    sizes = [tenant.size for tenant in tenants]
    assert len(tenants) == 1_000
    assert sum(sizes) >= 250_000
    assert set(MEASURED) <= set(sizes)
    assert sizes == sorted(sizes, reverse=True)
    # The distribution of the other tenants: the hundredth has a tenth of the tenth.
    others = sizes.copy()
    for size in MEASURED:
        others.remove(size)
    assert others[9] == pytest.approx(10 * others[99], rel=0.01)
    assert len({tenant.tenant_id for tenant in tenants}) == 1_000
    with pytest.raises(ValueError, match="no tenant of 77 entries"):
        find_tenant(77)


def test_identifiers_match_the_service_and_encode_the_entry() -> None:
    first, second = find_tenant(10), find_tenant(100)
    ids = [tenant.entry_id(number) for tenant in (first, second) for number in range(tenant.size)]
    assert len({*ids, first.tenant_id, second.tenant_id}) == 112
    assert {identifier.version for identifier in ids} == {7}
    assert [entry_number(identifier) for identifier in ids[:10]] == list(range(10))
    assert ids[10:] == sorted(ids[10:])


def test_a_batch_of_entries_is_the_same_in_every_build() -> None:
    stock, tenant = make_many(), find_tenant(10_000)
    again, other = stock.make_batch(tenant, BATCH), stock.make_batch(tenant, 2 * BATCH)
    for one, two in zip(stock.make_batch(tenant, BATCH), again, strict=True):
        assert (one.id, one.content, one.tags) == (two.id, two.content, two.tags)
        assert np.array_equal(one.vector, two.vector)
    assert again[0].number == BATCH
    assert other[0].number == 2 * BATCH
    assert not np.array_equal(again[0].vector, other[0].vector)


def test_entries_are_real_texts_first_and_then_variations() -> None:
    stock, tenant = make_many(), find_tenant(100)
    entries = list(stock.make_entries(tenant))
    originals = stock.originals_of(tenant)
    assert [entry.content for entry in entries[:30]] == [original.text for original in originals]
    begins = tenant.number % 30
    assert np.array_equal(entries[0].vector, stock.vectors[begins])
    assert not any(np.allclose(entry.vector, stock.vectors[(begins + entry.number) % 30]) for entry in entries[30:])
    assert np.allclose(np.linalg.norm(stock.make_vectors(tenant), axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("size", MEASURED)
def test_one_entry_in_a_hundred_is_rare_in_a_tenant_of_any_size(size: int) -> None:
    rare = [number for number in range(size) if is_rare(number)]
    assert len(rare) == max(1, size // 100)
    assert {number // 100 for number in rare} == set(range(max(1, size // 100)))


SMALL, LARGE = Population(1, 40), Population(2, BATCH + 200)


async def build(services: Services, admin_dsn: str, *tenants: Population) -> None:
    await build_tenants(services, admin_dsn, make_many(), tenants, hide_progress, exact_limit=100)
    await analyze(admin_dsn)


@pytest.mark.slow
async def test_a_built_tenant_equals_one_that_the_service_filled(services: Services, admin_dsn: str) -> None:
    await build(services, admin_dsn, LARGE, SMALL)
    small = await services.tenants.context(SMALL.tenant_id)
    large = await services.tenants.context(LARGE.tenant_id)
    assert (small.passages, small.indexed) == (40, False)
    assert (large.passages, large.indexed) == (BATCH + 200, True)
    stats = await services.administration.stats(LARGE.tenant_id)
    assert (stats.entries, stats.pending_embeddings) == (LARGE.size, 0)
    query = SearchQuery(query="boils", mode="keyword", tags=(RARE,), limit=50, duplicates="show")
    found = await services.search.search(LARGE.tenant_id, query)
    entries = make_many().make_entries(LARGE)
    expected = {entry.number for entry in entries if entry.tags and "boils" in entry.content}
    assert {entry_number(hit.id) for hit in found} == expected != set()


@pytest.mark.slow
async def test_an_interrupted_build_continues_where_it_stopped(
    services: Services, database: Database, admin_dsn: str, superuser_dsn: str
) -> None:
    await build(services, admin_dsn, Population(2, BATCH))
    # Up to the first batch, and not yet indexed.
    async with connected(superuser_dsn) as superuser:
        before = await superuser.fetchval("select max(created_at) from entries")
        await superuser.execute("update vector_statistics set index_state = 'building'")
    await build(services, admin_dsn, LARGE)
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from entries") == LARGE.size
        assert await superuser.fetchval("select count(*) from entries where created_at > $1", before) == 200
        assert await superuser.fetchval("select count(*) from embeddings where not in_index") == 0
        assert await superuser.fetchval("select index_state from vector_statistics") == "ready"
        assert await superuser.fetchval("select count(*) from pg_index where not indisvalid") == 0
        assert (
            await superuser.fetchval(
                "select count(*) from pg_index i join pg_class c on c.oid = i.indexrelid"
                " join pg_am a on a.oid = c.relam where a.amname = 'hnsw'"
            )
            == 1
        )


@pytest.mark.slow
async def test_a_complete_build_changes_nothing(services: Services, admin_dsn: str, superuser_dsn: str) -> None:
    await build(services, admin_dsn, SMALL)
    await build(services, admin_dsn, SMALL)
    async with connected(superuser_dsn) as superuser:
        assert await superuser.fetchval("select count(*) from embeddings") == SMALL.size
        assert await superuser.fetchval("select count(*) from tenants") == 1
