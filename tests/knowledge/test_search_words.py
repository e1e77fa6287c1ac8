"""What the keyword leg takes for a word, and what a word weighs."""

from __future__ import annotations

from app.composition import Services
from app.knowledge.query import SearchQuery
from app.knowledge.tenants import Tenant
from tests.knowledge.writing import ids, write


async def test_german_and_english_find_their_own_stems(services: Services, tenant: Tenant) -> None:
    german, english = await write(
        services,
        tenant,
        "Die alten Häuser am Hafen werden im nächsten Jahr von der Stadt erneuert.",
        "The old houses near the harbour are being renewed by the city next year.",
    )
    for query, expected in (
        ("Haus", german),
        ("alte Hafen", german),
        ("house", english),
        ("renewing", english),
        ("city", english),
        ("Städte", german),
        ("war", None),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == ([expected] if expected else []), query


async def test_a_stop_word_of_one_language_is_a_word_of_another(services: Services, tenant: Tenant) -> None:
    english, _german = await write(
        services,
        tenant,
        "The long war between the two cities ended with a treaty about the river.",
        "Der Vertrag war lange zwischen den beiden Städten umstritten und wurde nie unterschrieben.",
    )
    result = await services.search.search(tenant.id, SearchQuery(query="war", mode="keyword"))
    assert ids(result) == [english]


async def test_identifiers_are_found_whole_else_by_their_parts(services: Services, tenant: Tenant) -> None:
    whole, part = await write(
        services, tenant, "Settings are read from vercel.json at start.", "The json module parses text."
    )
    result = await services.search.search(tenant.id, SearchQuery(query="vercel.json", mode="keyword"))
    assert ids(result) == [whole]
    result = await services.search.search(tenant.id, SearchQuery(query="package.json", mode="keyword"))
    assert set(ids(result)) == {whole, part}


async def test_match_in_the_title_alone_suffices_and_weighs_more(services: Services, tenant: Tenant) -> None:
    filler = "Many words about something else, going on for a while."
    body, title = (
        await write(services, tenant, f"{filler} Harbour."),
        await write(services, tenant, f"{filler} Boats.", title="Harbour"),
    )
    result = await services.search.search(tenant.id, SearchQuery(query="harbours", mode="keyword"))
    assert ids(result) == [*title, *body]
    assert result[0].matched_terms == ("harbours",)


async def test_rarer_words_and_shorter_entries_rank_higher(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, *(f"common number{n}" for n in range(10)))
    rare, common, long = await write(
        services, tenant, "rare thing", "common thing", "rare " + "padding words here " * 30
    )
    result = await services.search.search(
        tenant.id, SearchQuery(query="rare common", mode="keyword", limit=3)
    )
    assert ids(result)[0] == rare
    positions = ids(await services.search.search(tenant.id, SearchQuery(query="rare", mode="keyword")))
    assert positions == [rare, long]
    assert common not in positions


async def test_word_scores_do_not_depend_on_the_other_tenants(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await write(services, tenant, "harbour lights", "boats")
    before = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    await write(services, other_tenant, *(f"harbour {n}" for n in range(20)))
    after = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    assert after.keyword_score == before.keyword_score
