"""Words of a query that no entry has: beginnings of words, and misspelt ones among others."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def test_last_word_is_completed(services: Services, tenant: Tenant) -> None:
    titled = await write(services, tenant, "How we work.", title="Quokka handbook", language="english")
    named = await write(services, tenant, "Routes are in vercel.json.", language="english")
    other = await write(services, tenant, "Hand in the forms.", language="english")
    for query, found, completions in (
        ("handb", titled, {"handb": ["handbook"]}),
        ("quokka handb", titled, {"handb": ["handbook"]}),
        ("vercel.js", named, {"vercel.js": ["vercel.json"]}),
        ("verc", named, {"verc": ["vercel.json", "vercel"]}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert ids(result) == found, query
        completed = keyword_leg_of(result).completions
        assert {key: sorted(words) for key, words in completed.items()} == {
            key: sorted(words) for key, words in completions.items()
        }
        assert result.metadata.exact
        assert result[0].matched_terms, query
    result = await services.search.search(tenant.id, SearchQuery(query="hand", mode="keyword", explain=True))
    assert ids(result) == other
    assert keyword_leg_of(result).completions == {}


@pytest.mark.parametrize("query", ["ha", "handb?", "handb is", "the"])
async def test_what_is_not_a_beginning_is_not_completed(services: Services, tenant: Tenant, query: str) -> None:
    """Two letters, a word before punctuation or another word, and a stop word."""
    await write(services, tenant, "A handbook of theatres.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    assert keyword_leg_of(result).completions == {}


async def test_completion_does_not_rank_above_the_words_that_were_typed(services: Services, tenant: Tenant) -> None:
    (typed,) = await write(services, tenant, "The harbour guide is new.", language="english")
    await write(services, tenant, "A handbook for sailors.", "A handbill for tourists.", language="english")
    result = await services.search.search(
        tenant.id, SearchQuery(query="harbour guide handb", mode="keyword", explain=True)
    )
    assert ids(result)[0] == typed
    assert len(result) == 3


async def test_why_not_and_filters_agree_with_a_completion(services: Services, tenant: Tenant) -> None:
    (one,) = await write(services, tenant, "A handbook of one.", tags=["first"], language="english")
    (two,) = await write(services, tenant, "A handbook of two.", tags=["second"], language="english")
    query = SearchQuery(query="handb", mode="keyword", tags=["second"])
    assert ids(await services.search.search(tenant.id, query)) == [two]
    assert [r.stage for r in (await services.search.why_not(tenant.id, one, query)).reasons] == ["filter"]
    assert (await services.search.why_not(tenant.id, two, query)).in_results


async def test_several_misspelt_words_are_corrected(services: Services, tenant: Tenant) -> None:
    (order,) = await write(services, tenant, "In vercel.json, the routing order decides.", language="english")
    await write(services, tenant, "The ordinary backup.", "A json parser.", language="english")
    result = await services.search.search(
        tenant.id, SearchQuery(query="vercel.jsn rout ordr", mode="keyword", explain=True)
    )
    assert ids(result)[0] == order
    assert keyword_leg_of(result).corrections == {"jsn": "json", "ordr": "order"}
    assert {"json", "order"} <= set(result[0].matched_terms)


async def test_one_wrong_word_among_right_ones_is_corrected_if_it_is_nearly_the_same(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "The harbour lighthouse was painted by the town.", language="english")
    for query, corrections in (
        ("painted harbour town lighthuose", {"lighthuose": "lighthouse"}),
        ("painted harbour town lighthose keeper", {"lighthose": "lighthouse"}),
        ("painted harbour town paintball", {}),
        ("who painted the harbour of the town with the lighthuose?", {}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == corrections, query
