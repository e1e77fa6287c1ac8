"""What an answer tells of its own completeness: `exact`, `pending`, `degraded`, `estimated_matches`."""

from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.vocabulary import Fusion, Mode
from app.db.queries import vectors
from app.db.queries.search import EntryFilter, VectorSpace
from app.knowledge.search.plan import POOL
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def search(services: Services, tenant: Tenant, query: str, **fields: Any) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(query=query, **fields))


async def write_pending(services: Services, tenant: Tenant, count: int, **fields: Any) -> list[Any]:
    """Entries whose embedding is left to the queue."""
    results = await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"harbour pilot number {n}", **fields) for n in range(count)]
    )
    return [result.id for result in results]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
@pytest.mark.parametrize("fusion", ["rrf", "score"])
@pytest.mark.parametrize("given", [True, False])
async def test_entries_without_vectors_are_reported_and_found_by_their_words(
    services: Services, tenant: Tenant, failing_provider: FailingProvider, mode: Mode, fusion: Fusion, given: bool
) -> None:
    await write_pending(services, tenant, 300)
    vector = failing_provider.direction(1).tolist() if given else None
    found = await search(services, tenant, "harbour", mode=mode, fusion=fusion, query_embedding=vector)
    metadata = found.metadata
    assert (metadata.pending, metadata.exact, metadata.fallback_mode) == (300, False, False)
    assert metadata.degraded == ["embeddings_pending", *(["ranking_truncated"] if mode == "hybrid" else [])]
    assert metadata.search_modes_used == ["keyword"], "no vector was compared"
    assert len(found) == 10
    assert {tuple(hit.sources) for hit in found} == {("keyword",)}
    assert metadata.estimated_matches == 300


async def test_pending_entries_are_counted_under_the_filters_and_without_hidden_ones(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await write(services, tenant, "A lighthouse", tags=["sea"])
    failing_provider.down = True
    inland, hidden = await write(services, tenant, "An inland harbour", "An old harbour", tags=["land"])
    await services.entries.change(tenant.id, hidden, EntryDraft(superseded_by_id=inland))
    failing_provider.down = False
    for filters, pending in (
        ({}, 1),
        ({"tags": ["land"]}, 1),
        ({"tags": ["sea"]}, 0),
        ({"include_superseded": True}, 2),
        ({"mode": "keyword"}, 0),
    ):
        metadata = (await search(services, tenant, "harbour", **filters)).metadata
        assert (metadata.pending, metadata.exact) == (pending, not pending), filters
        assert metadata.degraded == (["embeddings_pending"] if pending else []), filters
    assert (await search(services, tenant, "harbour", tags=["sea"])).metadata.search_modes_used == [
        "semantic",
        "keyword",
    ]
    # All that this filter admits is pending, although the tenant has vectors.
    found = await search(services, tenant, "harbour", mode="semantic", tags=["land"])
    assert (found.metadata.search_modes_used, ids(found)) == (["keyword"], [inland])


async def test_pending_entries_are_also_counted_while_the_provider_is_down(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    await write(services, tenant, "The harbour")
    metadata = (await search(services, tenant, "harbour")).metadata
    assert metadata.degraded == ["embedding_unavailable"], "no entry was compared by its vector"
    assert (metadata.pending, metadata.exact, metadata.search_modes_used) == (1, True, ["keyword"])


async def test_semantic_mode_finds_only_pending_entries_by_their_words(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.vectors["lighthouse"] = failing_provider.direction(1)
    failing_provider.vectors["A lamp"] = failing_provider.direction(1)
    failing_provider.vectors["The lighthouse keeper"] = failing_provider.direction(0, 1)
    (near,) = await write(services, tenant, "A lamp")
    await write(services, tenant, "The lighthouse keeper")
    failing_provider.down = True
    (waiting,) = await write(services, tenant, "A new lighthouse")
    failing_provider.down = False
    for fusion in ("rrf", "score"):
        found = await search(services, tenant, "lighthouse", mode="semantic", fusion=fusion)
        assert [(hit.id, hit.sources, hit.similarity is None) for hit in found] == [
            (near, ["semantic"], False),
            (waiting, ["keyword"], True),
        ]
        assert found.metadata.search_modes_used == ["semantic", "keyword"]
        assert found.metadata.strong_match, "the semantic hit is judged by its cosine only"


async def test_entry_without_a_vector_is_not_ranked_lower_for_that_in_score_fusion(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.default = failing_provider.direction(1)
    others = await write(services, tenant, "The harbour in autumn", "A quiet harbour wall", "Harbour dues")
    failing_provider.down = True
    (waiting,) = await write(services, tenant, "harbour pilot")
    failing_provider.down = False
    for mode in ("hybrid", "semantic"):
        found = await search(services, tenant, "harbour pilot", mode=mode, fusion="score", explain=True)
        assert set(ids(found)) == {waiting, *others}
        assert found.debug_info is not None
        told = {hit.id: hit for hit in found.debug_info.hits}[waiting]
        assert (told.cosine, told.similarity) == (None, None)
        assert told.estimated_cosine is not None
        assert told.estimated_cosine > 0.9, "as the cosines of the entries with the same words"
    assert ids(await search(services, tenant, "harbour pilot", fusion="score"))[0] == waiting


async def test_cut_ranking_is_told_on_its_first_and_its_last_page(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.default = failing_provider.direction(1)
    entries = 2 * POOL + 14
    await write_pending(services, tenant, entries)
    await services.embedder.embed_all(tenant.id)
    for mode in ("semantic", "keyword", "hybrid"):
        pages = [await search(services, tenant, "harbour", mode=mode, limit=50)]
        while (cursor := pages[-1].metadata.next_cursor) is not None:
            pages.append(await search(services, tenant, "harbour", mode=mode, limit=50, cursor=cursor))
        between = [False] * (len(pages) - 2)
        assert [page.metadata.degraded == ["ranking_truncated"] for page in pages] == [True, *between, True]
        assert all(page.metadata.exact for page in pages)
        metadata = pages[-1].metadata
        assert sum(map(len, pages)) == metadata.total < metadata.estimated_matches == entries
        # Of equal hits, each leg may take others.
        assert POOL <= metadata.total <= (2 * POOL if mode == "hybrid" else POOL)
    assert (await search(services, tenant, "pilot", similarity_threshold=1, mode="semantic")).metadata.total


async def test_cut_is_told_although_hidden_entries_are_among_the_nearest(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    failing_provider.vectors["harbour"] = failing_provider.direction(1)
    for n in range(POOL + 2):
        failing_provider.vectors[f"Boat {n}"] = failing_provider.direction(1, n / POOL)
    await services.entries.create_many(
        tenant.id, [EntryDraft(content=f"Boat {n}", external_id=f"{n}") for n in range(POOL + 2)]
    )
    await services.embedder.embed_all(tenant.id)
    nearest, second, third = ids(await search(services, tenant, "harbour", mode="semantic", limit=3))
    await services.entries.change(tenant.id, nearest, EntryDraft(superseded_by_id=second))
    # The ranked list has all of the entries but one, and then all.
    for removed, degraded in (([], ["ranking_truncated"]), ([third], [])):
        for entry in removed:
            await services.entries.delete(tenant.id, entry)
        found = await search(services, tenant, "harbour", mode="semantic")
        assert found.metadata.total == POOL
        assert (found.metadata.exact, found.metadata.degraded) == (True, degraded)
        assert found.metadata.estimated_matches == POOL + len(degraded)


async def test_later_pages_and_receipts_carry_what_the_first_page_told(services: Services, tenant: Tenant) -> None:
    await write_pending(services, tenant, 20)
    first = (await search(services, tenant, "harbour", limit=15)).metadata
    assert first.next_cursor is not None
    second = (await search(services, tenant, "harbour", limit=15, cursor=first.next_cursor)).metadata
    assert (second.pending, second.exact, second.degraded) == (20, False, ["embeddings_pending"])
    receipt = (await services.administration.receipt(tenant.id, first.search_id)).receipt
    assert (receipt.pending, receipt.exact, receipt.degraded) == (20, False, ["embeddings_pending"])


async def test_count_of_pending_entries_is_bounded_and_never_zero_where_it_stopped(
    services: Services, tenant: Tenant
) -> None:
    await write_pending(services, tenant, 5)
    space = (await services.tenants.context(tenant.id)).space
    statement = vectors.SQL["pending"].literal(model_id=space.model_id)
    async with services.database.tenant_session(tenant.id) as session:
        for entry_filter, most, counted in (
            (EntryFilter(), 10, 5),
            (EntryFilter(), 3, 3),
            (EntryFilter(tags=("none",)), 10, 0),
            (EntryFilter(tags=("none",)), 3, 1),
        ):
            assert counted == await session.fetch_value(statement, filter=entry_filter.as_row(), most_pending=most)


async def test_vectors_of_a_model_that_is_not_in_use_are_counted_one_by_one(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The harbour", "The lighthouse")
    space = (await services.tenants.context(tenant.id)).space
    async with services.database.tenant_session(tenant.id) as session:
        assert await vectors.count_pending(session, space, EntryFilter()) == 0
        former = VectorSpace(space.model_id + 1, space.dimensions)
        assert await vectors.count_pending(session, former, EntryFilter()) == 2


async def test_statistics_compare_the_estimates_with_the_ranked_lists(services: Services, tenant: Tenant) -> None:
    none = (await services.administration.stats(tenant.id)).estimates
    assert (none.searches, none.truncated, none.ranked_share) == (0, 0, 1.0)
    await write_pending(services, tenant, 2 * POOL)
    await search(services, tenant, "harbour", mode="keyword")
    await services.entries.create(tenant.id, EntryDraft(content="a lighthouse"))
    await search(services, tenant, "lighthouse", mode="keyword")
    await search(services, tenant, "nothing", mode="keyword")
    found = (await services.administration.stats(tenant.id)).estimates
    assert (found.searches, found.truncated) == (3, 1)
    assert found.ranked_share == pytest.approx(0.75), "half of the first, and all of the second"
