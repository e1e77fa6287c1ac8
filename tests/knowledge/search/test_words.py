"""What the keyword leg treats as a word, and the weight of a word."""

from __future__ import annotations

from itertools import islice, product

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.db.queries import statistics
from tests.fixtures.database.cluster import connected
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


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


async def test_wrongly_detected_entries_do_not_make_the_other_languages_words_misspelt(
    services: Services, tenant: Tenant
) -> None:
    """Both languages stem every query; the stems of the wrong language are in no entry."""
    english = await write(
        services,
        tenant,
        "Deployments are rolled back by the releasing engineers.",
        "Engineers on duty are paged at night.",
        "Invoices are archived for ten years.",
        language="english",
    )
    await write(services, tenant, "Billing engineer.", "Deployment of invoice.", language="german")
    (german,) = await write(services, tenant, "Die Rechnungen werden von den Teams archiviert.", language="german")
    for query, expected in (
        ("releases rolling", english[0]),
        ("archiving the invoices", english[2]),
        ("Archivierung der Rechnung", german),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == {}, query
        assert result[0].id == expected, query


@pytest.mark.parametrize("counted", [False, True], ids=["small tenant", "words counted"])
async def test_correctly_spelt_word_is_never_corrected(
    services: Services, tenant: Tenant, superuser_dsn: str, counted: bool
) -> None:
    """Not even if the filter excludes its entry and there are more common words, or too many others."""
    await write(services, tenant, "the zazanulov is described here", tags=["one"], language="english")
    await write(services, tenant, "the bazanulov", "another bazanulov", tags=["two"], language="english")
    if counted:
        async with connected(superuser_dsn) as superuser:
            await superuser.execute("update corpus_statistics set entries = 1000 where tenant_id = $1", tenant.id)
        async with services.database.tenant_session(tenant.id) as session:
            await statistics.refresh_lexemes(session)
    else:
        others = ["".join(letters) + "lov" for letters in islice(product(*["bdfgklmn", "ao"] * 3), 3_200)]
        await write(services, tenant, " ".join(others), language="english")
    for query, corrections in (("zazanulov", {}), ("bazanulow", {"bazanulow": "bazanulov"})):
        wanted = SearchQuery(query=query, mode="keyword", tags=["two"], explain=True)
        result = await services.search.search(tenant.id, wanted)
        assert keyword_leg_of(result).corrections == corrections


async def test_corrections_are_whole_words_of_the_query_and_of_an_entry(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The Invoices are archived by the team.", language="english")
    await write(services, tenant, "Die Rechnungen werden von den Teams archiviert.", language="german")
    for typed, spelt in (("Invoicse", "Invoices"), ("Rechnugnen", "Rechnungen")):
        result = await services.search.search(tenant.id, SearchQuery(query=typed, mode="keyword", explain=True))
        assert keyword_leg_of(result).corrections == {typed: spelt}
        assert result[0].matched_terms == (spelt.lower(),)


async def test_identifiers_are_found_as_a_whole_or_else_by_their_parts(services: Services, tenant: Tenant) -> None:
    whole, part = await write(
        services, tenant, "Settings are read from vercel.json at start.", "The json module parses text."
    )
    result = await services.search.search(tenant.id, SearchQuery(query="vercel.json", mode="keyword"))
    assert ids(result) == [whole]
    result = await services.search.search(tenant.id, SearchQuery(query="package.json", mode="keyword"))
    assert set(ids(result)) == {whole, part}


async def test_typographic_characters_do_not_belong_to_a_word(services: Services, tenant: Tenant) -> None:
    contents = (
        "„Methodisten“ nannten sich die Studenten in Oxford.",
        "The route’s order is “first match wins”…",
        "Timeouts – 30\u00a0seconds each – are counted per attempt.",
        "• Backups cost 5€ a month",
        "検索（全文）は、速い。",
    )
    entries = await write(services, tenant, *contents)
    for query, place in (
        ("Methodisten", 0),
        ("routes", 1),
        ("first", 1),
        ('"match wins"', 1),
        ("seconds", 2),
        ("month backups", 3),
        ("5", 3),
        ("全文", 4),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == [entries[place]], query
    # The reverse: only the query contains the characters.
    plain = await write(services, tenant, "A quota is a limit on tokens.")
    for query in ("“quota”", "the quota…", "limit\u00a0on\u00a0tokens", "quota – why"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == plain, query


async def test_match_in_the_title_is_enough_and_weighs_more(services: Services, tenant: Tenant) -> None:
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
    result = await services.search.search(tenant.id, SearchQuery(query="rare common", mode="keyword", limit=3))
    assert ids(result)[0] == rare
    positions = ids(await services.search.search(tenant.id, SearchQuery(query="rare", mode="keyword")))
    assert positions == [rare, long]
    assert common not in positions


async def test_keyword_scores_do_not_depend_on_other_tenants(
    services: Services, tenant: Tenant, other_tenant: Tenant
) -> None:
    await write(services, tenant, "harbour lights", "boats")
    before = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    await write(services, other_tenant, *(f"harbour {n}" for n in range(20)))
    after = (await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword")))[0]
    assert after.keyword_score == before.keyword_score


async def test_one_entry_in_another_language_does_not_change_match_strength(services: Services, tenant: Tenant) -> None:
    """The stop words of an English query are unknown words in German, which no English entry can have."""
    await write(services, tenant, "The zebra crossing is by the school.", "Llamas eat hay.", language="english")
    query = SearchQuery(query="where is the zebra crossing", mode="keyword", explain=True)
    before = await services.search.search(tenant.id, query)
    await write(services, tenant, "Das Zebra wohnt im Zoo.", language="german")
    after = await services.search.search(tenant.id, query)
    assert before.metadata.strong_match
    assert after.metadata.strong_match
    assert keyword_leg_of(after).full_match_score < 2 * keyword_leg_of(before).full_match_score
