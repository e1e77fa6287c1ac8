"""Filters and texts of a search."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.db.rows import new_id
from app.web import bodies
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import expect_fields
from tests.fixtures.providers.failing import FailingProvider

ENTRIES: list[dict[str, Any]] = [
    {"content": "word for all", "tags": ["a"], "confidence": 0.2},
    {"content": "word for dev", "roles": ["dev"], "tags": ["a", "b"], "entry_type": "lesson"},
    {"content": "word for qa", "roles": ["qa"], "tags": ["c"], "entry_type": "summary", "scope": "project"},
    {"content": "word for both", "roles": ["dev", "qa"], "metadata": {"team": "red", "n": 1, "x": {"y": 2}}},
]


@pytest.fixture(scope="module")
async def filterable(http: httpx.AsyncClient, api_services: Services, shared_provider: FailingProvider) -> Caller:
    """The admin of a tenant with `ENTRIES`, all of which are also near the query semantically."""
    tenant = await api_services.tenants.create(NewTenant(f"f-{new_id().hex}"), actor="test")
    admin = Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
    shared_provider.down = False
    for entry in ENTRIES:
        shared_provider.vectors[entry["content"]] = shared_provider.direction(1.0)
        await admin.add(**entry)
    return admin


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"all", "dev", "qa", "both"}),
        ({"role": "dev"}, {"all", "dev", "both"}),
        ({"role": "qa"}, {"all", "qa", "both"}),
        ({"role": "pm"}, {"all"}),
        ({"role": "all"}, {"all"}),
        ({"tags": ["a"]}, {"all", "dev"}),
        ({"tags": ["a", "c"]}, {"all", "dev", "qa"}),
        ({"tags": ["a", "b"], "tags_match": "all"}, {"dev"}),
        ({"tags": ["a", "c"], "tags_match": "all"}, set()),
        ({"tags": ["none"]}, set()),
        ({"entry_type": "lesson"}, {"dev"}),
        ({"entry_type": ["lesson", "summary"]}, {"dev", "qa"}),
        ({"min_confidence": 0.2}, {"all", "dev", "qa", "both"}),
        ({"min_confidence": 0.21}, {"dev", "qa", "both"}),
        ({"scope": "project"}, {"qa"}),
        ({"scope": "global"}, {"all", "dev", "both"}),
        ({"source": "entry"}, {"all", "dev", "qa", "both"}),
        ({"source": "asset"}, set()),
        ({"asset_id": [str(uuid4())]}, set()),
        ({"metadata": {"team": "red"}}, {"both"}),
        ({"metadata": {"team": "red", "n": 1}}, {"both"}),
        ({"metadata": {"x": {"y": 2}}}, {"both"}),
        ({"metadata": {"team": "blue"}}, set()),
        ({"role": "dev", "tags": ["b"], "entry_type": "lesson", "scope": "global"}, {"dev"}),
    ],
)
async def test_a_filter_applies_in_every_mode(
    filterable: Caller, provider: FailingProvider, filters: dict[str, Any], expected: set[str]
) -> None:
    provider.vectors["word"] = provider.direction(1.0)
    for mode in ("keyword", "semantic", "hybrid"):
        found = await filterable.search("word", mode=mode, **filters)
        assert {hit["content"].split()[-1] for hit in found["results"]} == expected, mode


async def test_superseded_and_expired_entries_are_hidden(admin: Caller) -> None:
    new = await admin.add("The new word")
    old = await admin.add("The old word", superseded_by_id=new["id"])
    await admin.add("The late word", expires_at=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    await admin.add("The last word", expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert set(await admin.find("word")) == {"The new word", "The last word"}
    found = await admin.search("word", mode="keyword", include_superseded=True)
    assert {hit["content"] for hit in found["results"]} == {"The new word", "The old word", "The last word"}
    assert {h["superseded_by_id"] for h in found["results"] if h["id"] == old["id"]} == {new["id"]}


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


async def test_german_and_english_each_find_their_stems(admin: Caller) -> None:
    german = "Die Häuser am Hafen wurden im letzten Jahr renoviert und die Kräne geprüft."
    english = "The houses at the pier were renovated last year, and the cranes were inspected."
    await admin.add(german)
    await admin.add(english)
    assert await admin.find("Haus Kran") == [german]
    assert await admin.find("crane inspecting") == [english]


async def test_a_title_match_is_enough_and_weighs_more(admin: Caller) -> None:
    await admin.add("It opens at six in the morning on most days", title="Harbour")
    await admin.add("The harbour opens at six in the morning on most days")
    assert await admin.find("harbour") == [
        "It opens at six in the morning on most days",
        "The harbour opens at six in the morning on most days",
    ]


async def test_a_snippet_of_a_long_entry_shows_the_match(admin: Caller) -> None:
    await admin.add("Filler words stand here. " * 200 + "The crane is serviced in March. " + "And more. " * 200)
    (hit,) = (await admin.search("crane", mode="keyword"))["results"]
    assert len(hit["snippet"]) <= 240
    assert "crane" in hit["snippet"]
    assert hit["snippet"].startswith("…")
    assert hit["snippet"].endswith("…")
    assert hit["matched_terms"] == ["crane"]


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
