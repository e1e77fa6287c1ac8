"""Filters and texts of a search."""

from typing import Any

import httpx
import pytest

from app.composition.services import Services
from app.web import bodies
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields

MODES = ("hybrid", "semantic", "keyword")


@pytest.mark.parametrize(
    "query",
    [
        ("the and of " * 1000)[:10_000],
        ("der die das und " * 700)[:10_000],
        ("?!.,;:-_()[]{}'\"\\|&*%" * 500)[:10_000],
        "harbour " * 1250,
        "x" * 10_000,
        "🚢" * 10_000,
        " ".join(f"w{n}" for n in range(1_800)),
    ],
    ids=["English stop words", "German stop words", "punctuation", "one word", "x", "emoji", "many words"],
)
async def test_a_long_meaningless_query_is_answered(admin: Caller, query: str) -> None:
    assert 9_000 <= len(query) <= 10_000
    await admin.add("The harbour opens at six")
    for mode in MODES:
        found = await admin.search(query, mode=mode)
        assert found["metadata"]["fallback_mode"] is False
    words = await admin.find(query)
    assert words == (["The harbour opens at six"] if query.startswith("harbour") else [])


async def test_length_is_counted_after_trimming(admin: Caller) -> None:
    await admin.search(" \n" * 50 + "x" * 10_000 + "\t " * 50)
    answer = await admin.post("/knowledge/search", {"query": " " + "x" * 10_001})
    expect_fields(answer, "query")


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("שלום לעולם הגדול", "לעולם"),
        ("مرحبا بالعالم", "بالعالم"),
        ("The ship 🚢 leaves", "ship 🚢"),
        ("Größe und Straße", "STRASSE größe"),
        ("naïve café", "café"),
        ("港の営業時間", "港の営業時間"),
        ("a:b & c | d ! (e) <-> f:* zebra", "zebra & | ! ( <-> :*"),
        ("Robert'); DROP TABLE entries;-- zebra", "'); DROP TABLE entries;--"),
        ("50% off_price zebra\\", "50% off_price \\"),
        ("<b>zebra</b> <script>alert(1)</script>", "<b>zebra</b>"),
    ],
)
async def test_text_of_any_script_is_found_by_its_words(admin: Caller, content: str, query: str) -> None:
    await admin.add(content)
    assert await admin.find(query) == [content]
    (hit,) = (await admin.search(query, mode="keyword"))["results"]
    assert hit["content"] == content
    # The snippet of HTML is its text.
    assert hit["snippet"] == content.replace("<b>zebra</b> <script>alert(1)</script>", "zebra alert(1)")
    for mode in MODES:
        await admin.search(query, mode=mode, explain=True)


@pytest.mark.parametrize("query", ["\u202e", "\u200b", "\ufeff", "\u0301", "\x01\x02", "\U0010ffff", "%s %(x)s {}"])
async def test_odd_characters_are_answered(admin: Caller, query: str) -> None:
    await admin.add("The harbour opens at six")
    for mode in MODES:
        answer = await admin.post("/knowledge/search", {"query": query, "mode": mode})
        assert answer.status_code == 200, answer.text


JSON = "application/json"
VALID = b'{"query": "harbour"}'


async def ask(caller: Caller, kind: str, body: bytes, path: str = "/knowledge/search") -> httpx.Response:
    return await caller.request("POST", path, content=body, headers={"Content-Type": kind})


@pytest.mark.parametrize("body", [VALID, b"{}", b'{"query": '], ids=["valid", "missing query", "no JSON"])
async def test_each_request_counts_once(admin: Caller, platform: Caller, api_services: Services, body: bytes) -> None:
    limits = f"/admin/tenants/{admin.tenant_id}"
    assert (await platform.patch(limits, {"limits": {"requests_per_minute": 100}})).status_code == 200
    await admin.search("harbour")
    assert admin.tenant_id is not None
    tenant = await api_services.tenants.context(admin.tenant_id)
    before = api_services.admission.used(tenant)["requests_per_minute"]
    for _ in range(10):
        await ask(admin, JSON, body)
    assert api_services.admission.used(tenant)["requests_per_minute"] - before in (9, 10)


async def test_a_refused_body_is_parsed_once(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0
    parse = bodies.parse_json

    def count(*arguments: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return parse(*arguments)

    monkeypatch.setattr(bodies, "parse_json", count)
    assert (await ask(admin, JSON, b"{}")).status_code == 422
    assert parsed == 1
