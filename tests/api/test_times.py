"""Times and characters."""

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.knowledge.words import fold, unify
from tests.fixtures.characters import pairs, representatives
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import allow
from tests.fixtures.http.mcp_client import connect, succeed

HELD = 0.06
"""Seconds for which another search keeps the tenant's only place, from the moment that a search waits for it."""
LEAST = round(1000 * HELD) - 1
"""Milliseconds that a search waits at least; the answer has whole ones."""


async def wait_until_waiting(waiting: Callable[[], int]) -> None:
    async with asyncio.timeout(60):
        while not waiting():  # noqa: ASYNC110 (no event tells)
            await asyncio.sleep(0.001)
    await asyncio.sleep(HELD)


@asynccontextmanager
async def busy(services: Services, caller: Caller) -> AsyncIterator[None]:
    """The tenant's only place for a search is taken until another search has waited for a moment."""
    context = await services.tenants.context(caller.own_tenant)
    taken = asyncio.Event()

    async def search() -> None:
        async with services.admission.search(context):
            taken.set()
            await wait_until_waiting(lambda: services.admission.running_and_waiting[1])

    searching = asyncio.create_task(search())
    await taken.wait()
    yield
    await searching


def expect_times(times: Mapping[str, Any]) -> None:
    assert LEAST <= times["waiting_ms"] <= times["query_time_ms"]


@pytest.fixture
async def limited(admin: Caller, platform: Caller) -> Caller:
    for number in range(3):
        await admin.add(f"The harbour opens at six, note {number}")
    await allow(platform, admin, concurrent_searches=1)
    return admin


async def test_every_kind_of_search_counts_its_wait_for_a_turn(
    app: FastAPI, limited: Caller, api_services: Services
) -> None:
    async with busy(api_services, limited):
        found = await limited.search("harbour", limit=1)
    expect_times(found["metadata"])

    async with busy(api_services, limited):
        later = await limited.search("harbour", limit=1, cursor=found["metadata"]["next_cursor"])
    expect_times(later["metadata"])

    async with busy(api_services, limited):
        body = {"entry_id": found["results"][0]["id"], "request": {"query": "harbour"}}
        answer = await limited.post("/knowledge/search/why-not", body)
    expect_times(answer.json())

    async with busy(api_services, limited):
        body = {"searches": [{"query": "harbour"}, {"query": "six"}]}
        answer = await limited.post("/knowledge/search/batch", body)
    for outcome in answer.json()["results"]:
        expect_times(outcome["result"]["metadata"])

    saved = (await limited.post("/knowledge/saved-searches", {"name": "h", "request": {"query": "harbour"}})).json()
    async with busy(api_services, limited):
        answer = await limited.post(f"/knowledge/saved-searches/{saved['id']}/run", None)
    expect_times(answer.json()["metadata"])

    async with connect(app, limited.token, "auto") as client, busy(api_services, limited):
        structured, _ = await succeed(client, "kb_search", query="harbour")
    await api_services.journal.flush()
    receipt = (await limited.get(f"/admin/searches/{structured['metadata']['search_id']}")).json()
    assert receipt["query_time_ms"] >= LEAST

    async with busy(api_services, limited):
        result = await api_services.search.search(limited.own_tenant, SearchQuery(query="harbour"))
    expect_times({"waiting_ms": result.metadata.waiting_ms, "query_time_ms": result.metadata.query_time_ms})


async def test_the_record_of_a_search_has_the_time_of_its_answer(limited: Caller, api_services: Services) -> None:
    async with busy(api_services, limited):
        metadata = (await limited.search("harbour"))["metadata"]
    record = (await limited.get(f"/admin/searches/{metadata['search_id']}")).json()
    assert record["query_time_ms"] == metadata["query_time_ms"]
    (hour,) = (await limited.get("/admin/stats")).json()["searches_by_hour"]
    assert hour["p95_ms"] == metadata["query_time_ms"]


async def test_a_wait_for_a_read_is_part_of_a_batch(limited: Caller, api_services: Services) -> None:
    context = await api_services.tenants.context(limited.own_tenant)
    readings = api_services.admission._readings
    readings.note(context.tenant_id)
    places = readings.share
    for _ in range(places):
        await readings.acquire(context.tenant_id)

    async def release() -> None:
        await wait_until_waiting(lambda: readings.waiting(context.tenant_id))
        for _ in range(places):
            readings.release(context.tenant_id)

    releasing = asyncio.create_task(release())
    answer = await limited.post("/knowledge/search/batch", {"searches": [{"query": "harbour"}]})
    await releasing
    (outcome,) = answer.json()["results"]
    expect_times(outcome["result"]["metadata"])


BULK = "/knowledge/entries/bulk"
ODD = (
    "\u0640", "é\u0640", "\u0640 \u0640", "\u064b", "\u0300", "\u093c\u094b", "\u200d", "\u200c", "\ufeff",
    "\ufe0f", "\x01", "\x7f", "\x85", "\u202e", "\ufdd0", "\uffff", "\U0001d160", "\U000e0041",
    "\U000e0100", "\U000f0000", "\U0010ffff", "\ufc5e",
)  # fmt: skip
"""Elongation, lone marks, joiners, controls, variation selectors, noncharacters, private characters and tags."""
ARABIC = [
    f"تأسست المدينة عام {year} ـ وكانت مركزا للتجارة، ثم اتسعت ـ كما يروى ـ في القرن التالي."
    for year in range(900, 1_140)
]
"""Paragraphs with the elongation as a dash."""


def has_word(text: str) -> bool:
    """Whether a text has letters or digits besides the marks that readers omit, and those of ownership, which end a
    word."""
    unmarked = text.translate({ord(mark): " " for mark in "™℠"})
    return any(unicodedata.category(c)[0] in "LN" for c in fold(unify(unmarked), "simple"))


async def check(admin: Caller, texts: Sequence[str]) -> None:
    """Store each text as content, title and tag, and ask for it in each way."""
    texts = [text for text in texts if text.strip()]
    entries = [
        {"content": f"{n} {text}", "title": text, "tags": [text], "metadata": {text: text}, "language": "simple"}
        for n, text in enumerate(texts)
    ]
    for start in range(0, len(entries), 500):
        answer = await admin.post(BULK, {"entries": entries[start : start + 500]})
        assert answer.status_code == 200, answer.text
        assert {result["status"] for result in answer.json()["results"]} == {"created"}
    for n, text in enumerate(texts):
        content = f"{n} {text}"
        wanted = {"tags": [text], "facets": ["tags"], "explain": True}
        if has_word(text):
            assert content in await admin.find(text, **wanted), ascii(text)
        assert content in await admin.find(f'"{content}"', **wanted), ascii(text)
        for query in (f'"{text} {text}" {n} {text}', f"zzz{text} {text}y", f"{text}.{text}1 {text * 3}zz"):
            await admin.search(query, mode="keyword", metadata={text: text}, facets=[f"metadata.{n}"])
        await admin.search(text)


async def test_odd_characters_are_stored_and_asked_for(admin: Caller) -> None:
    await check(admin, ODD)
    for text in filter(str.strip, ODD):
        await admin.add(text)
        answer = await admin.get("/knowledge/entries", params={"tag": text})
        assert answer.status_code == 200, ascii(text)


@pytest.mark.slow
async def test_a_sample_of_characters_and_pairs_is_found(admin: Caller) -> None:
    await check(admin, [*representatives()[::700], *pairs()[::1400]])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
async def test_characters_and_pairs_of_every_script_are_found(admin: Caller, part: int) -> None:
    await check(admin, [*representatives()[part::40], *pairs()[part::80]])


async def test_a_bulk_of_arabic_paragraphs_is_stored_and_found(admin: Caller) -> None:
    answer = await admin.post(BULK, {"entries": [{"content": text} for text in ARABIC]})
    assert {result["status"] for result in answer.json()["results"]} == {"created"}
    assert ARABIC[37] in await admin.find("937 ـ مركزا")
    assert (await admin.find('"937 ـ وكانت مركزا"'))[0] == ARABIC[37]
