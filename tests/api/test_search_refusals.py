"""Searches that are refused before any of their queries reaches the database."""

from __future__ import annotations

import json
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
from tests.fixtures.database.cluster import TestDatabase
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import each, expect_fields, expect_problem
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
    api_services: Services,
    api_database: TestDatabase,
    shared_provider: FailingProvider,
    verifier: TokenVerifier,
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


NAN, INFINITY = float("nan"), float("inf")
UNIT = [1.0] + [0.0] * 15

REFUSED: list[tuple[str, Any]] = [
    *each("query", "", " \n\t ", None, 7, ["word"], "x" * 10_001, "a\x00b", "a\ud800b"),
    *each("mode", "fast", "", None, 1),
    *each("limit", 0, -1, 21, 10**30, 1.5, 3.0, "3", True, NAN),
    *each("similarity_threshold", -0.01, 1.01, NAN, INFINITY, "0.3", True),
    *(("weights", {"semantic": a, "keyword": b}) for a, b in ((0.5, 0.6), (1, 1), (0, 0), (0.7, 0.3 + 2e-9))),
    *(("weights", {"semantic": a, "keyword": b}) for a, b in ((-0.1, 1.1), (NAN, 0.3), (INFINITY, 0))),
    *each("weights", {"semantic": 1}, {"semantic": 0.7, "keyword": 0.3, "x": 0}, [0.7, 0.3]),
    *each("role", "boss", "", ["dev"]),
    *each("tags", "a", [""], [1], ["x" * 101], ["a\x00"], ["\ud800"], ["t"] * 101),
    *each("tags_match", "none", None),
    *each("entry_type", "novel", ["fact", "novel"], 1, {}),
    *each("min_confidence", -0.1, 1.1, NAN, "1"),
    *each("scope", "galaxy", 1),
    *each("source", "web", 1),
    *each("asset_id", "x", ["x"], [1], [str(UUID(int=1))] * 1001),
    *each(
        "metadata",
        [],
        "x",
        {"a": [1] * 100},
        {"a": {"b": [[{}] * 99]}},
        {"a": "\x00"},
        {"a": "\ud800"},
        {"a": "x" * 70_000},
    ),
    *each("include_superseded", "yes", 1, None),
    *each("boost", "type", ["fame"], None),
    *each("fusion", "max", 1),
    *each("rrf_k", 0, 1001, 60.5, "60", None),
    *each("ef_search", 9, 201, 64.5, "64"),
    *each("query_embedding", [], [0.0] * 16, UNIT[:15], [*UNIT, 0.0], ["1"] * 16, "x"),
    *(("query_embedding", [value, *UNIT[1:]]) for value in (NAN, INFINITY, -INFINITY, None)),
    *each("explain", "yes", 1, None),
    *each("cursor", 7, "nonsense", "x" * 201),
    *((name, "x") for name in ("surprise", "tenant_id", "Query", "diversity", "max_limit")),
]


JSON = {"Content-Type": "application/json"}


def to_json(body: Any) -> bytes:
    """JSON with values that strict writers refuse: NaN, Infinity, lone surrogates."""
    return json.dumps(body).encode()


def name_case(case: Any) -> str:
    return f"{case}"[:30].encode("ascii", "backslashreplace").decode()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("field", "value"), REFUSED, ids=name_case)
async def test_a_field_outside_its_range_is_named_and_no_query_is_run(
    counted: CountedSearch, reader: Caller, field: str, value: Any
) -> None:
    caller = replace(reader, http=counted.http)
    before = counted.database.opened
    body = {"query": "word", field: value}
    answer = await caller.post("/knowledge/search", content=to_json(body), headers=JSON)
    errors = expect_problem(answer, 422)["errors"]
    assert {error["field"].partition(".")[0] for error in errors} == {field}
    assert all(error["message"] for error in errors)
    assert counted.database.opened == before


async def test_the_same_search_within_its_ranges_runs(counted: CountedSearch, reader: Caller) -> None:
    before = counted.database.opened
    await replace(reader, http=counted.http).search("word")
    assert counted.database.opened > before


async def test_a_missing_query_is_named(reader: Caller) -> None:
    body = expect_fields(await reader.post("/knowledge/search", {"limit": 3}), "query")
    assert body["errors"][0]["message"] == "is required"


async def test_all_wrong_fields_are_named_at_once(reader: Caller) -> None:
    answer = await reader.post(
        "/knowledge/search",
        {"query": "word", "limit": 0, "weights": {"semantic": 0.9, "keyword": 0.3}, "tags": [""]},
    )
    expect_fields(answer, "limit", "weights", "tags")


async def test_the_limit_of_the_service_can_be_set(counted: CountedSearch, admin: Caller) -> None:
    entries = [{"content": f"word {n}"} for n in range(25)]
    await admin.post("/knowledge/entries/bulk", {"entries": entries})
    caller = replace(admin, http=counted.http)
    assert len(await caller.find("word")) == 3
    assert len(await caller.find("word", limit=20)) == 20
    answer = await caller.post("/knowledge/search", {"query": "word", "limit": 21})
    assert "20" in expect_fields(answer, "limit")["errors"][0]["message"]


@pytest.mark.parametrize("limit", [1, 50, None])
async def test_the_limits_of_the_contract_are_accepted(reader: Caller, limit: int | None) -> None:
    await reader.search("word", limit=limit)


@pytest.mark.parametrize("limit", [0, 51])
async def test_values_beyond_the_limits_of_the_contract_are_an_error(reader: Caller, limit: int) -> None:
    expect_fields(await reader.post("/knowledge/search", {"query": "word", "limit": limit}), "limit")


@pytest.mark.parametrize("keyword", [0.3, 0.3 + 5e-10, 0.3 - 5e-10])
async def test_weights_may_deviate_from_one_by_a_rounding_error(reader: Caller, keyword: float) -> None:
    await reader.search("word", weights={"semantic": 0.7, "keyword": keyword})


@pytest.mark.parametrize("weights", [{"semantic": 1, "keyword": 0}, {"semantic": 0.0, "keyword": 1.0}])
async def test_one_weight_may_be_zero(reader: Caller, weights: dict[str, float]) -> None:
    await reader.search("word", weights=weights)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param([1e308] * 16, id="huge"),
        pytest.param([1e-320] + [0.0] * 15, id="denormal"),
        pytest.param([-1e-30] * 16, id="tiny"),
        pytest.param([10**30] * 16, id="integers"),
    ],
)
async def test_an_embedding_of_any_finite_length_is_accepted(reader: Caller, vector: list[float]) -> None:
    await reader.search("word", query_embedding=vector)
