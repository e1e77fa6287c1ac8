"""Words of entries that are hidden, also after they were counted."""

import json

from app.composition.services import Services
from app.db.queries import statistics
from tests.fixtures.http.callers import Caller
from tests.isolation.readers.conftest import Join


async def test_a_word_is_not_a_correction_once_its_entries_are_hidden(
    admin: Caller, join: Join, api_services: Services
) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    fishes = [await ann.add(f"The zebrafish number {n} swims") for n in range(3)]
    for n in range(3):
        await ann.add(f"The harbour number {n} opens")
    assert admin.tenant_id is not None
    async with api_services.database.tenant_session(admin.tenant_id) as session:
        await statistics.refresh_lexemes(session)
    asked = ("zebrafsh", "harbour zebrafsh")
    for caller in (ann, cleo):
        assert await corrected(caller, asked) == ["zebrafish", "zebrafish"]
    for fish in fishes:
        await ann.patch(f"/knowledge/entries/{fish['id']}", {"readers": ["group:finance"]})
    assert await corrected(ann, asked) == ["zebrafish", "zebrafish"]
    assert await corrected(cleo, asked) == [None, None]


async def corrected(caller: Caller, queries: tuple[str, ...]) -> list[str | None]:
    """What each query's misspelt word was searched as."""
    found = [await caller.search(query, mode="keyword", explain=True) for query in queries]
    told = [answer["debug_info"]["legs"]["keyword"]["corrections"].get("zebrafsh") for answer in found]
    assert all("zebrafish" in json.dumps(each) for each, word in zip(found, told, strict=True) if word)
    return told


async def test_a_part_of_a_word_finds_no_hidden_word(admin: Caller, join: Join) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    text = "Das Selbstbewusstsein der Gruppe"
    secret = await ann.add(text, title="Handbook", readers=["group:finance"], language="german")
    await cleo.add("Ein anderer Text der Gruppe", language="german")
    for query, word in (("andbook", "Handbook"), ("Bewusstsein", "Selbstbewusstsein")):
        seen, hidden = [await caller.search(query, mode="keyword", explain=True) for caller in (ann, cleo)]
        assert [hit["id"] for hit in seen["results"]] == [secret["id"]]
        assert seen["debug_info"]["legs"]["keyword"]["compounds"] == {query.lower(): [word]}
        never = await cleo.search("qqqqqqqqqq", mode="keyword", explain=True)
        assert hidden["debug_info"]["legs"]["keyword"] == never["debug_info"]["legs"]["keyword"]
        assert (hidden["results"], hidden["metadata"]["total"]) == ([], 0)
