"""Suggestions for a search without results: the tenant's own tags and words, as they are written."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.db.queries.tenants import statistics
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.search.answer.suggestions import SUGGESTIONS, spell
from app.knowledge.search.query import SearchQuery
from app.knowledge.tenants.directory import Tenant
from tests.knowledge.writing import write


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
    assert await suggestions(services, tenant, "harbuor") == ["Harbours"]


async def test_suggested_words_are_those_of_entries_that_pass_the_filter(
    services: Services, tenant: Tenant
) -> None:
    await write(services, tenant, "Two harbours are painted.", scope="project", language="english")
    await write(services, tenant, "The harbingers are early.", scope="global", language="english")
    assert await suggestions(services, tenant, "harbuor", scope="project") == ["harbours"]
    assert await suggestions(services, tenant, "harbuor", scope="global") == ["harbingers"]
    assert await suggestions(services, tenant, "harbuor", tags=["none"]) == []


async def test_suggestions_are_ordered_by_similarity_then_by_use(services: Services, tenant: Tenant) -> None:
    await write(services, tenant, "one", "two", "three", tags=["finance"])
    await write(services, tenant, "four", tags=["Harbuorage", "zoo"])
    await write(services, tenant, "Harbours close.", language="english")
    assert await suggestions(services, tenant, "harbuor") == ["Harbuorage", "Harbours", "finance", "zoo"]


async def test_suggestions_are_few_and_distinct(services: Services, tenant: Tenant) -> None:
    tags = ["harbuor", "harbours", *(f"other-{n}" for n in range(9))]
    await write(services, tenant, "Harbours close.", tags=tags, language="english")
    found = await suggestions(services, tenant, "Harbuor")
    assert len(found) == SUGGESTIONS
    assert found[0].lower() == "harbours"
    assert len({text.lower() for text in found}) == len(found)
    assert "harbuor" not in {text.lower() for text in found}


async def test_tag_is_no_longer_suggested_when_its_last_entry_is_deleted(
    services: Services, tenant: Tenant
) -> None:
    first, second = await write(services, tenant, "one", "two", tags=["crane"])
    await services.entries.change(tenant.id, first, EntryDraft(tags=["pier"]))
    assert await suggestions(services, tenant, "qqq") == ["crane", "pier"]
    await services.entries.delete(tenant.id, second)
    assert await suggestions(services, tenant, "qqq") == ["pier"]


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
