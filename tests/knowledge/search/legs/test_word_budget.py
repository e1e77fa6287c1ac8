"""Queries of words that occur in more entries than the keyword leg may read."""

from typing import Any

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.knowledge.search.plan import SearchDefaults
from tests.knowledge.writing import ids

BUDGET = 10
COMMON, EVERYWHERE = 60, 11 * 20
"""Numbers of entries that contain a word: over the budget, and over twenty times the budget."""


@pytest.fixture
async def bounded(services: Services) -> Services:
    """Services with the same database whose keyword leg may read ten postings."""
    return await build_services(services.database, services.provider, defaults=SearchDefaults(keyword_budget=BUDGET))


async def write_many(services: Services, tenant: Tenant, contents: list[str]) -> list[object]:
    results = await services.entries.create_many(tenant.id, [EntryDraft(content=text) for text in contents])
    return [result.id for result in results]


async def search(services: Services, tenant: Tenant, query: str) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))


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
