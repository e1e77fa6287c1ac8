"""Queries of words that occur in more entries than the keyword leg may read, and what their answers tell of it."""

from typing import Any

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import KeywordExplanation, SearchResult
from app.contract.search import SearchQuery
from app.db.queries import statistics
from app.knowledge.search.plan import SearchDefaults
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants

COMMON, EVERYWHERE = 60, 11 * 20
"""Numbers of entries that contain a word: over the budget, and over twenty times the budget."""


async def write_many(services: Services, tenant: Tenant, contents: list[str]) -> list[object]:
    results = await services.entries.create_many(tenant.id, [EntryDraft(content=text) for text in contents])
    return [result.id for result in results]


async def test_entry_with_all_the_common_words_is_found_among_those_with_one(bounded: Services, tenant: Tenant) -> None:
    ones = [f"harbour number {n}" for n in range(COMMON)] + [f"lighthouse count {n}" for n in range(COMMON)]
    written = await write_many(bounded, tenant, [*ones, "the lighthouse in the harbour"])
    found = await search(bounded, tenant, "harbour lighthouse")
    assert ids(found)[0] == written[-1]
    assert len(found) == 10


async def test_word_of_nearly_every_entry_finds_the_newest(bounded: Services, tenant: Tenant) -> None:
    written = await write_many(bounded, tenant, [f"harbour number {n}" for n in range(EVERYWHERE)])
    # A search counts no further than the budget.
    await bounded.worker.runner.upkeep.refresh_statistics(tenant.id)
    found = await search(bounded, tenant, "harbour")
    assert len(found) == 10
    # Entries up to four times the budget are read, newest first.
    assert set(ids(found)) <= set(written[-4 * BUDGET :])


async def test_rare_word_is_found_together_with_one_of_nearly_every_entry(bounded: Services, tenant: Tenant) -> None:
    contents = ["harbour with a lighthouse", *(f"harbour number {n}" for n in range(EVERYWHERE))]
    written = await write_many(bounded, tenant, contents)
    assert ids(await search(bounded, tenant, "harbour lighthouse"))[0] == written[0]


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("rare", ["tags", "metadata"])
async def test_filter_that_leaves_few_entries_finds_all_that_have_a_frequent_word(
    bounded: Services, tenant: Tenant, everywhere: bool, rare: str
) -> None:
    drafts = [
        EntryDraft(
            content=f"{word} number {n}",
            tags=["rare"] if n < 4 else [],
            metadata={"kind": "rare" if n < 4 else "usual"},
        )
        for word in ("harbour", "lighthouse")
        for n in range(EVERYWHERE if everywhere else COMMON)
    ]
    written = [result.id for result in await bounded.entries.create_many(tenant.id, drafts)]
    few = [written[n] for n, draft in enumerate(drafts) if draft.tags == ("rare",)]
    filters: dict[str, Any] = {rare: ["rare"] if rare == "tags" else {"kind": "rare"}}
    query = SearchQuery(query="harbour lighthouse", mode="keyword", **filters)
    found = await bounded.search.search(tenant.id, query)
    assert set(ids(found)) == set(few)
    assert (found.metadata.exact, found.metadata.degraded) == (True, [])
    # A filter that leaves more entries than the budget is searched as before.
    many = SearchQuery(query="harbour lighthouse", mode="keyword", metadata={"kind": "usual"})
    found = await bounded.search.search(tenant.id, many)
    assert len(found) == 10
    assert not found.metadata.exact


BUDGET = 10


async def search(services: Services, tenant: Tenant, query: str, **fields: Any) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", **fields))


@pytest.fixture
async def bounded(services: Services) -> Services:
    """Services over the same database whose keyword leg may read ten postings."""
    return await build_services(services.database, services.provider, defaults=SearchDefaults(keyword_budget=BUDGET))


async def test_search_is_exact_only_if_its_words_fit_into_the_budget(bounded: Services, tenant: Tenant) -> None:
    await bounded.entries.create_many(
        tenant.id,
        [EntryDraft(content=f"harbour number {n}", tags=[f"t{n % 2}"]) for n in range(BUDGET + 2)]
        + [EntryDraft(content="One lighthouse")],
    )
    for query, exact in (("lighthouse", True), ("harbour", False), ("harbour lighthouse", False)):
        answer = await search(bounded, tenant, query, explain=True)
        metadata = answer.metadata
        assert metadata.exact is exact, query
        assert answer.debug_info is not None
        assert isinstance(answer.debug_info.legs.keyword, KeywordExplanation)
        assert answer.debug_info.legs.keyword.strategy == ("exact" if exact else "heaviest_words_first")
        assert (metadata.degraded == ["ranking_truncated"]) is not exact
    # Nothing was found, because a word that is too frequent was not looked up under a filter without an index.
    found = await search(bounded, tenant, "harbour lighthouse", role="pm", entry_type=["lesson"])
    assert not found.metadata.exact
    found = await search(bounded, tenant, "lighthouse", tags=["t1"])
    assert (len(found), found.metadata.exact, found.metadata.degraded) == (0, True, [])


async def test_query_of_more_words_than_are_searched_is_not_exact(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The harbour")
    for count, exact in ((199, True), (201, False)):
        query = "harbour " + " ".join(f"w{n}ord" for n in range(count))
        assert (await search(services, tenant, query)).metadata.exact is exact


async def test_words_beyond_those_that_are_searched_can_be_the_only_ones_that_entries_have(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "The harbour")
    for count, exact in ((199, True), (200, False)):
        query = " ".join(f"w{n}ord" for n in range(count)) + " harbour"
        found = await search(services, tenant, query)
        assert (len(found), found.metadata.exact) == (1 if exact else 0, exact)


@pytest.mark.parametrize(
    ("german", "english", "found", "exact"),
    [(0, 2 * BUDGET - 1, 2 * BUDGET - 1, True), (0, 2 * BUDGET, None, False), (2 * BUDGET, 3, None, False)],
)
async def test_search_is_exact_only_if_it_read_all_entries_although_the_frequencies_are_outdated(
    bounded: Services, tenant: Tenant, german: int, english: int, found: int | None, exact: bool
) -> None:
    runs = [EntryDraft(content=f"A run on the bank {n}", language="english") for n in range(english)]
    await bounded.entries.create_many(tenant.id, runs[:2])
    async with bounded.database.tenant_session(tenant.id) as session:
        await statistics.refresh_lexemes(session)
    # The query's word is "run" in English and "running" in German: these entries have its lexeme, but not its word.
    others = [EntryDraft(content=f"Ein Run auf die Bank {n}", language="german") for n in range(german)]
    await bounded.entries.create_many(tenant.id, others + runs[2:])
    result = await search(bounded, tenant, "running", limit=50)
    assert result.metadata.exact is exact
    assert found is None or len(result) == found
