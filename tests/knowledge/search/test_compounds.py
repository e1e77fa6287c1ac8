"""Compound words: a compound of the query finds its parts, and parts find their compound."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.search.compound_texts import ENTRIES, QUERIES
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants

PARTS = "Die Sicherung der Datenbank läuft jede Nacht um zwei Uhr und dauert zehn Minuten."
WHOLE = "Die Datenbanksicherung läuft jede Nacht um zwei Uhr und dauert zehn Minuten."


async def test_compound_and_its_parts_find_each_other(services: Services, tenant: Tenant) -> None:
    (parts,) = await write(services, tenant, PARTS, language="german")
    for query in ("Datenbanksicherung", "Datenbanksicherungen"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result) == [parts], query
    (whole,) = await write(services, tenant, WHOLE, language="german")
    for query in ("Sicherung der Datenbank", "Sicherungen von Datenbanken", "Datenbank Sicherung"):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert set(ids(result)) == {parts, whole}, query
    result = await services.search.search(
        tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword", explain=True)
    )
    assert ids(result) == [whole, parts]
    assert result.metadata.exact
    assert set(result[1].matched_terms) == {"datenbank", "sicherung"}
    assert keyword_leg_of(result).compounds == {"datenbanksicherung": ["Datenbank", "Sicherung"]}
    result = await services.search.search(
        tenant.id, SearchQuery(query="Sicherung der Datenbank", mode="keyword", explain=True)
    )
    assert keyword_leg_of(result).compounds == {"sicherung datenbank": ["Datenbanksicherung"]}


async def test_linking_letters_and_other_languages(services: Services, tenant: Tenant) -> None:
    pairs = (
        ("german", "Antrag auf Urlaub", "Der Urlaubsantrag wird im Portal gestellt."),
        ("german", "Nummer des Kunden", "Die Kundennummer steht auf der Rechnung."),
        ("dutch", "verzekering voor de auto", "De autoverzekering wordt jaarlijks betaald."),
        ("swedish", "försäkring bil", "En bilförsäkring betalas varje år."),
        ("danish", "sikkerhed for data", "Reglerne om datasikkerhed gælder for alle."),
        ("norwegian", "bedrift kultur", "Vår bedriftskultur er åpen."),
        ("finnish", "tieto kanta", "Palvelun tietokanta varmistetaan öisin."),
    )
    for language, query, content in pairs:
        (entry,) = await write(services, tenant, content, language=language)
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword"))
        assert ids(result)[:1] == [entry], query


async def test_word_and_its_parts_do_not_add_up(services: Services, tenant: Tenant) -> None:
    """An entry that has the compound and both parts scores as one with the compound, not more."""
    both, _ = await write(services, tenant, "Datenbanksicherung Sicherung Datenbank Server", PARTS, language="german")
    whole, _ = await write(services, tenant, "Datenbanksicherung Protokoll Dienste Server Ku", WHOLE, language="german")
    result = await services.search.search(tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword"))
    scores = {hit.id: hit.keyword_score for hit in result}
    assert scores[both] == pytest.approx(scores[whole], rel=0.02)


async def test_parts_are_not_sought_in_languages_without_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "The data base is full.", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query="database", mode="keyword", explain=True))
    assert keyword_leg_of(result).compounds == {}


async def test_long_query_is_searched_without_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, PARTS, "Der Server im Keller", "Minuten", language="german")
    for query, compounds in (
        ("Wie dauert die Datenbanksicherung im Keller?", {"datenbanksicherung": ["Datenbank", "Sicherung"]}),
        ("Wie lange dauert die Datenbanksicherung vom Server im Keller?", {}),
    ):
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
        assert keyword_leg_of(result).compounds == compounds, query


async def test_filter_holds_for_compounds(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, PARTS, language="german", tags=["one"])
    (other,) = await write(services, tenant, PARTS + " Zwei.", language="german", tags=["two"])
    found = await services.search.search(
        tenant.id, SearchQuery(query="Datenbanksicherung", mode="keyword", tags=["two"])
    )
    assert ids(found) == [other]


async def test_why_not_tells_parts_from_a_part(services: Services, tenant: Tenant) -> None:
    parts, part = await write(services, tenant, PARTS, "Die Datenbank ist voll.", language="german")
    query = SearchQuery(query="Datenbanksicherung", mode="keyword")
    assert (await services.search.why_not(tenant.id, parts, query)).in_results
    missing = await services.search.why_not(tenant.id, part, query)
    assert [reason.detail for reason in missing.reasons if reason.stage == "keyword"] == [
        "shares no word with the query"
    ]


async def test_compounds_of_a_small_collection_are_among_the_first_three(services: Services, tenant: Tenant) -> None:
    """Without compounds and completions, the keyword leg has 12 of these 45 answers among its first three."""
    entries = {
        key: (await write(services, tenant, content, language=language))[0]
        for key, (language, content) in ENTRIES.items()
    }
    missed = []
    for query, key in QUERIES:
        result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", limit=3))
        if entries[key] not in ids(result):
            missed.append(query)
    assert len(missed) <= 3, missed
