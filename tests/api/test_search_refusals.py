"""Searches that are refused before any of their queries reaches the database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from asgi_lifespan import LifespanManager

from app.auth.tokens import TokenVerifier
from app.composition.providers import find_models
from app.composition.services import Services
from app.db.database import Database
from app.db.session import TenantSession
from app.knowledge.search.plan import SearchDefaults
from app.main import create_app
from app.settings import IngestionSettings, Settings
from app.web import bodies
from tests.fixtures.database.cluster import TestDatabase
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import make_search


class CountingDatabase(Database):
    """Count the transactions that are opened."""

    opened = 0

    @asynccontextmanager
    async def tenant_session(
        self, tenant_id: UUID, *, setup: str = "", background: timedelta | None = None, aside: bool = False
    ) -> AsyncIterator[TenantSession]:
        self.opened += 1
        async with super().tenant_session(tenant_id, setup=setup, background=background, aside=aside) as session:
            yield session


@dataclass(frozen=True, slots=True)
class CountedSearch:
    """Clients of an app whose searches use a separate database that counts transactions."""

    database: CountingDatabase
    http: httpx.AsyncClient


@pytest.fixture(scope="session")
async def counted(
    api_services: Services, api_database: TestDatabase, shared_provider: FailingProvider, verifier: TokenVerifier
) -> AsyncIterator[CountedSearch]:
    """The app with changed limits of its searches: 3 hits by default, 20 at most."""
    database = CountingDatabase(api_database.service_dsn, pool_size=2)
    (model,) = await find_models(database, [shared_provider.model])
    defaults = SearchDefaults(default_limit=3, max_limit=20)
    search = make_search(api_services, database, {model: shared_provider}, defaults)
    settings = Settings(ingestion=IngestionSettings(worker=False))
    app = create_app(settings, replace(api_services, search=search), verifier)
    async with LifespanManager(app), open_client(app) as client:
        yield CountedSearch(database, client)
    await database.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 21), ("query", ""), ("weights", {"semantic": 1}), ("tags", [""]), ("query_embedding", [1.0])],
)
async def test_a_field_outside_its_range_is_named_and_no_query_is_run(
    counted: CountedSearch, reader: Caller, field: str, value: Any
) -> None:
    caller = replace(reader, http=counted.http)
    before = counted.database.opened
    answer = await caller.post("/knowledge/search", {"query": "word", field: value})
    errors = expect_problem(answer, 422)["errors"]
    assert {error["field"].partition(".")[0] for error in errors} == {field}
    assert counted.database.opened == before


async def test_the_same_search_within_its_ranges_runs(counted: CountedSearch, reader: Caller) -> None:
    before = counted.database.opened
    await replace(reader, http=counted.http).search("word")
    assert counted.database.opened > before


async def test_the_limit_of_the_service_can_be_set(counted: CountedSearch, admin: Caller) -> None:
    entries = [{"content": f"word {n}"} for n in range(25)]
    await admin.post("/knowledge/entries/bulk", {"entries": entries})
    caller = replace(admin, http=counted.http)
    assert len(await caller.find("word")) == 3
    assert len(await caller.find("word", limit=20)) == 20
    answer = await caller.post("/knowledge/search", {"query": "word", "limit": 21})
    assert "20" in expect_fields(answer, "limit")["errors"][0]["message"]


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
    limits = f"/admin/tenants/{admin.own_tenant}"
    assert (await platform.patch(limits, {"limits": {"requests_per_minute": 100}})).status_code == 200
    await admin.search("harbour")
    tenant = await api_services.tenants.context(admin.own_tenant)
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
