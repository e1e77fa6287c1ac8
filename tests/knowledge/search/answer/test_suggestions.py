"""Suggestions for a search without results: the tenant's own tags and words, as they are written."""

from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.results import Relaxation
from app.contract.search import SearchQuery
from app.contract.vocabulary import Mode
from app.db.queries import statistics
from app.knowledge.search.answer.page import SUGGESTIONS
from app.knowledge.words import spell
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants


async def suggestions(services: Services, tenant: Tenant, query: str, **fields: object) -> list[str]:
    wanted = SearchQuery(query=query, mode="keyword", **fields)  # type: ignore[arg-type]
    result = await services.search.search(tenant.id, wanted)
    assert len(result) == 0
    return list(result.metadata.suggestions)


@pytest.mark.parametrize("counted", [False, True], ids=["small tenant", "words counted"])
async def test_misspelt_word_suggests_whole_words_of_titles_and_texts(
    services: Services, tenant: Tenant, other_tenant: Tenant, counted: bool
) -> None:
    await write(services, tenant, "Nothing else.", title="Invoicing of the Harbours", language="english")
    await write(services, tenant, "Harbours close.", language="english")
    await write(services, other_tenant, "A harbuoring place.", tags=["harbuorage"], language="english")
    if counted:
        async with services.database.tenant_session(tenant.id) as session:
            await statistics.refresh_lexemes(session)
    # Neither the stem "harbour" nor a word of the other tenant, which is closer to the query.
    assert await suggestions(services, tenant, "harbuoer") == ["Harbours"]


async def test_suggested_words_are_those_of_entries_that_pass_the_filter(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "Two harbours are painted.", scope="project", language="english")
    await write(services, tenant, "The harbingers are early.", scope="global", language="english")
    assert await suggestions(services, tenant, "harbuoer", scope="project") == ["harbours"]
    assert await suggestions(services, tenant, "harbuoer", scope="global") == ["harbingers"]
    assert await suggestions(services, tenant, "harbuoer", tags=["none"]) == []


async def test_suggestions_are_ordered_by_similarity_then_by_use(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "one finance", "two", "three", tags=["finance"], language="english")
    await write(services, tenant, "four, a zoo", tags=["Harbuorage", "zoo"], language="english")
    await write(services, tenant, "Harbours close.", language="english")
    assert await suggestions(services, tenant, "harbuoer") == ["Harbours", "finance", "zoo"]


async def test_tags_that_find_nothing_are_not_suggested(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "one", "two", tags=["t1", "t2", "t3"], language="english")
    assert await suggestions(services, tenant, "zzqx plorf") == []


async def test_suggestions_are_few_and_distinct(services: Services, tenant: Tenant) -> None:
    tags = ["harbuoer", "harbours", *(f"other-{n}" for n in range(9))]
    others = " ".join(tags[2:])
    await write(services, tenant, f"Harbours close. {others}", tags=tags, language="english")
    found = await suggestions(services, tenant, "Harbuoer")
    assert len(found) == SUGGESTIONS
    assert found[0].lower() == "harbours"
    assert len({text.lower() for text in found}) == len(found)
    assert "harbuoer" not in {text.lower() for text in found}


async def test_tag_is_no_longer_suggested_when_its_last_entry_is_deleted(services: Services, tenant: Tenant) -> None:
    first, second = await write(services, tenant, "one crane, a pier", "two cranes", tags=["crane"])
    await services.entries.change(tenant.id, first, EntryDraft(tags=["pier"]))
    assert await suggestions(services, tenant, "qqq") == ["crane", "pier"]
    await services.entries.delete(tenant.id, second)
    assert await suggestions(services, tenant, "qqq") == ["pier"]


@pytest.mark.parametrize("mode", ["keyword", "hybrid", "semantic"])
async def test_each_suggestion_finds_something_under_the_same_filter(
    services: Services, tenant: Tenant, mode: Mode
) -> None:
    await write(services, tenant, "Harbours close at night.", tags=["harbour", "night"], language="english")
    await write(services, tenant, "Cranes are inspected.", tags=["crane"], scope="project", language="english")
    await write(services, tenant, "Unrelated words.", tags=["nowhere"], language="english")
    for given in ({"tags": ["crane"]}, {"scope": "project"}, {"tags": ["crane"], "scope": "project"}):
        found = await services.search.search(tenant.id, SearchQuery(query="harbuoer carne", mode=mode, **given))
        metadata = found.metadata
        if len(found):
            continue
        assert "harbour" not in metadata.suggestions
        for suggestion in metadata.suggestions:
            again = SearchQuery(query=suggestion, mode="keyword", **given)
            assert len(await services.search.search(tenant.id, again)), suggestion


async def test_an_empty_result_names_the_filter_that_is_the_cause(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "Harbours close.", "The harbour opens.", tags=["port"], language="english")
    await write(services, tenant, "Cranes lift.", tags=["crane"], scope="project", language="english")

    async def relaxations(**given: Any) -> list[tuple[list[str], int]]:
        result = await services.search.search(tenant.id, SearchQuery(query="harbour", mode="keyword", **given))
        assert len(result) == 0
        return [(list(r.without), r.matches) for r in result.metadata.relaxations]

    assert await relaxations(tags=["crane"]) == [(["tags"], 2)]
    assert await relaxations(tags=["crane"], scope="global", min_confidence=0.5) == [(["tags"], 2)]
    assert await relaxations(tags=["crane", "port"], tags_match="all") == [(["tags"], 2)]
    assert await relaxations(scope="project") == [(["scope"], 2)]
    assert await relaxations(metadata={"a": 1}) == [(["metadata"], 2)]


async def test_filters_that_exclude_every_match_only_together_are_named_together(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "Harbours close.", tags=["port"], language="english")
    wanted = SearchQuery(query="harbour", mode="keyword", tags=["crane"], scope="project")
    metadata = (await services.search.search(tenant.id, wanted)).metadata
    assert metadata.relaxations == [Relaxation(["tags", "scope"], 1)]
    assert metadata.filter_note == (
        "Nothing matches under these filters; about 1 entry matches without tags and scope."
    )


async def test_filters_are_not_named_where_they_are_not_the_cause(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "Harbours close.", tags=["port"], language="english")
    for query, tags in (("harbour", ["port"]), ("zebra", ["port"]), ("zebra", None)):
        found = await services.search.search(tenant.id, SearchQuery(query=query, mode="keyword", tags=tags))
        assert found.metadata.relaxations == []
        assert found.metadata.filter_note == ""


@pytest.mark.parametrize(
    ("lexeme", "language", "text", "word"),
    [
        ("haus", "german", "Die alten Häuser am Hafen", "Häuser"),
        ("deploy", "english", "Undeployed; Deploying, deploys", "Deploying"),
        ("reset", "simple", "ERR_CONN_RESET", "RESET"),
        ("boat", "english", "Ships only", None),
    ],
)
def test_lexeme_is_spelt_as_in_the_text(lexeme: str, language: str, text: str, word: str | None) -> None:
    assert spell(lexeme, language, text) == word
