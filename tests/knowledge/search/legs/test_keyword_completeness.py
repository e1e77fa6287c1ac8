"""What the keyword leg tells of its own completeness: it reads only so many entries."""

from typing import Any

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import KeywordExplanation, SearchResult
from app.contract.search import SearchQuery
from app.db.queries import statistics
from app.knowledge.search.plan import SearchDefaults
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants

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
