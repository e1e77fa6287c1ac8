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
