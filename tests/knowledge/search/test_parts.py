"""Parts of words: of the words of titles, and of compounds."""

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.queries import statistics
from tests.fixtures.database.cluster import execute
from tests.fixtures.searching import keyword_leg_of
from tests.knowledge.writing import ids, write

pytestmark = pytest.mark.own_tenants


async def find(services: Services, tenant: Tenant, query: str) -> tuple[Sequence[UUID], Mapping[str, Sequence[str]]]:
    """The hits of a search by words, and what else stands for the words of its query."""
    result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    return ids(result), keyword_leg_of(result).compounds


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize(
    ("query", "title", "told"),
    [
        ("andbook", "Handbook for sailors", {"andbook": ["Handbook"]}),
        ("ncident", "Incident report", {"ncident": ["Incident"]}),
        ("berprüf", "Überprüfung der Anlage", {"berprüf": ["Überprüfung"]}),
        ("нциден", "Разбор инцидентов", {"нциден": ["инцидентов"]}),
        ("weekly ncident", "Incident report", {"ncident": ["Incident"]}),
    ],
)
async def test_an_inner_part_finds_a_word_of_a_title(
    services: Services,
    tenant: Tenant,
    mode: Literal["keyword", "hybrid"],
    query: str,
    title: str,
    told: Mapping[str, Sequence[str]],
) -> None:
    (titled,) = await write(services, tenant, "It is read weekly.", title=title)
    await write(services, tenant, "The crew meets at noon.", title="Minutes", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query=query, mode=mode, explain=True))
    assert ids(result)[0] == titled
    assert keyword_leg_of(result).compounds == told
    assert {word.lower() for words in told.values() for word in words} <= set(result[0].matched_terms)


async def test_a_beginning_finds_a_title_although_another_entry_has_the_literal_word(
    services: Services, tenant: Tenant
) -> None:
    (titled,) = await write(services, tenant, "How we work.", title="Handbook", language="english")
    (literal,) = await write(services, tenant, "The key handb is not in use.", language="english")
    assert await find(services, tenant, "handb") == ([literal, titled], {"handb": ["Handbook"]})
    assert await find(services, tenant, "handb work") == ([titled, literal], {"handb": ["Handbook"]})


async def test_a_known_word_does_not_stand_for_words_around_it(services: Services, tenant: Tenant) -> None:
    (order,) = await write(services, tenant, "The order of the harbour.", language="english")
    await write(services, tenant, "The end of the country.", title="Border", language="english")
    assert await find(services, tenant, "order") == ([order], {})


@pytest.mark.parametrize("query", ["dboo", "book", "andbok", "and-boo", "how is one andbook written by sailors"])
async def test_other_queries_do_not_find_a_title_by_a_part(services: Services, tenant: Tenant, query: str) -> None:
    """Four letters, a misspelt part, two parts, and a word in a long question."""
    await write(services, tenant, "For the crew.", title="Handbook", language="english")
    assert await find(services, tenant, query) == ([], {})


async def test_a_correction_comes_before_a_part(services: Services, tenant: Tenant) -> None:
    (label,) = await write(services, tenant, "The label is on the box.", language="english")
    await write(services, tenant, "Tables.", title="Scalabels", language="english")
    result = await services.search.search(tenant.id, SearchQuery(query="labels", mode="keyword", explain=True))
    assert ids(result) == [label]
    result = await services.search.search(tenant.id, SearchQuery(query="labbel", mode="keyword", explain=True))
    assert (ids(result), keyword_leg_of(result).corrections) == ([label], {"labbel": "label"})


@pytest.mark.parametrize(
    ("query", "text", "language", "compound"),
    [
        ("Bewusstsein", "Das Selbstbewusstsein der Gruppe wächst.", "german", "Selbstbewusstsein"),
        ("Datenbank", "Die Datenbanksicherung läuft nachts.", "german", "Datenbanksicherung"),
        ("Sicherungen", "Die Datenbanksicherung läuft nachts.", "german", "Datenbanksicherung"),
        ("Verzekering", "De autoverzekering is duur.", "dutch", "autoverzekering"),
        ("Prüfung", "Die Sicherheitsüberprüfung ist jährlich.", "german", "Sicherheitsüberprüfung"),
        ("dienst", "De belastingdienst is gesloten.", "dutch", "belastingdienst"),
        ("försäkring", "En bilförsäkring betalas varje år.", "swedish", "bilförsäkring"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
async def test_one_part_finds_a_compound_after_the_word_itself(
    services: Services, tenant: Tenant, query: str, text: str, language: str, compound: str, is_known: bool
) -> None:
    (found,) = await write(services, tenant, text, language=language)
    known = await write(services, tenant, f"{query}: x y z.", language=language) if is_known else []
    await write(services, tenant, "Ein anderer Text.", language="german")
    hits, told = await find(services, tenant, query)
    assert hits == [*known, found]
    result = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    leg = keyword_leg_of(result)
    assert [*told.values(), *leg.completions.values()] == [[compound]]
    assert compound.lower() in result[-1].matched_terms


async def test_a_short_text_with_a_longer_word_comes_after_a_long_one_with_the_word(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "A case.", title="Notebookcase", language="english")
    texts = [f"On the {colour} desk there is a notebook of the team, with the plan of the week." for colour in "abcde"]
    words = await write(services, tenant, *texts, title="desk", language="english")
    hits, told = await find(services, tenant, "notebook")
    assert set(hits[:5]) == set(words)
    assert len(hits) == 6
    assert told == {"notebook": ["Notebookcase"]}


@pytest.mark.parametrize("query", ["kitchen", "kitchenmergeracne", "kitchenmergerac", "kitchen mergeracm"])
async def test_words_of_expired_and_quarantined_entries_are_as_if_they_were_not_there(
    services: Services, tenant: Tenant, superuser_dsn: str, query: str
) -> None:
    await write(services, tenant, "Pots and pans.", title="Kitchen", language="english")
    before = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    for state in ("expires_at = now() - interval '1 s'", "quarantined = true"):
        (gone,) = await write(services, tenant, f"Mergeracm, {state}.", title="Kitchenmergeracme", language="english")
        await execute(superuser_dsn, f"update entries set {state} where id = '{gone}'")
    after = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", explain=True))
    shown = [
        (leg.compounds, leg.corrections, leg.completions, [(hit.id, hit.matched_terms) for hit in result])
        for result in (before, after)
        for leg in [keyword_leg_of(result)]
    ]
    assert shown[0] == shown[1]
    scores = {
        word: [
            hit.score for hit in await services.search.search(tenant.id, SearchQuery(f"kitchen {word}", mode="keyword"))
        ]
        for word in ("mergeracm", "qzvwxkqz")
    }
    assert len({*map(tuple, scores.values())}) == 1


async def test_only_languages_with_compounds_have_them_outside_titles(services: Services, tenant: Tenant) -> None:
    (word,) = await write(services, tenant, "The function is new.", language="english")
    await write(services, tenant, "A malfunction, a dysfunction and functionaries.", language="english")
    assert await find(services, tenant, "function") == ([word], {})


async def test_why_not_and_filters_agree_with_a_part(services: Services, tenant: Tenant) -> None:
    (one,) = await write(services, tenant, "One.", title="Handbook", tags=["first"], language="english")
    (two,) = await write(services, tenant, "Two.", title="Handbook", tags=["second"], language="english")
    (other,) = await write(services, tenant, "Three.", title="Minutes", tags=["second"], language="english")
    query = SearchQuery(query="andbook", mode="keyword", tags=["second"])
    assert ids(await services.search.search(tenant.id, query)) == [two]
    assert [r.stage for r in (await services.search.why_not(tenant.id, one, query)).reasons] == ["filter"]
    assert (await services.search.why_not(tenant.id, two, query)).in_results
    assert "keyword" in [r.stage for r in (await services.search.why_not(tenant.id, other, query)).reasons]


async def test_a_changed_title_is_found_by_its_new_parts(services: Services, tenant: Tenant) -> None:
    (entry,) = await write(services, tenant, "For the crew.", title="Handbook", language="english")
    await services.entries.change(tenant.id, entry, EntryDraft(title="Guideline"))
    assert await find(services, tenant, "andbook") == ([], {})
    assert await find(services, tenant, "uideline") == ([entry], {"uideline": ["Guideline"]})


async def test_parts_of_words_do_not_cross_tenants(services: Services, tenant: Tenant, other_tenant: Tenant) -> None:
    await write(services, tenant, "Das Selbstbewusstsein.", title="Handbook", language="german")
    await write(services, other_tenant, "Ein anderer Text.", title="Minutes", language="german")
    for query in ("andbook", "Bewusstsein"):
        assert (await find(services, tenant, query))[0]
        assert await find(services, other_tenant, query) == ([], {})


@pytest.mark.slow
async def test_parts_are_found_in_a_large_tenant(services: Services, tenant: Tenant) -> None:
    """Ten thousand entries with the word do not hide the few with a longer one, and its words are bounded."""
    drafts = [
        EntryDraft(content=f"Die Datenbank Nummer {n}.", title=f"Notiz {n}", language="german") for n in range(10_000)
    ]
    for start in range(0, len(drafts), 500):
        await services.entries.create_many(tenant.id, drafts[start : start + 500])
    (compound,) = await write(services, tenant, "Die Datenbanksicherung.", title="Handbuch", language="german")
    async with services.database.tenant_session(tenant.id) as session:
        await statistics.refresh_lexemes(session)
    for query, told in (("andbuch", "Handbuch"), ("Sicherung", "Datenbanksicherung")):
        assert await find(services, tenant, query) == ([compound], {query.lower(): [told]})
    result = await services.search.search(tenant.id, SearchQuery(query="Datenbank Sicherung", mode="keyword"))
    assert ids(result)[0] == compound
