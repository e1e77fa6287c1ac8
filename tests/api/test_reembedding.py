"""Changes of the model, and the reranker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.db.rows import new_id
from app.db.schema.owner import register_model
from app.main import create_app
from app.reranking import RerankServer, ResilientReranker
from app.settings import Settings
from app.web.monitoring import Observation
from tests.fixtures.database.cluster import MODEL, TestDatabase, execute
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem
from tests.fixtures.http.mcp_client import connect, succeed
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.providers.rerank_wire import RerankWire
from tests.fixtures.providers.wire import Reply
from tests.knowledge.reembedding.moving import WIDER


@pytest.fixture
async def moving_services(database: Database, fresh_database: TestDatabase) -> AsyncIterator[Services]:
    """Services of two models, over a database for this test."""
    await register_model(fresh_database.admin_dsn, WIDER)
    services = await build_services(database, FailingProvider(MODEL), next_provider=FailingProvider(WIDER))
    yield services
    await services.close()


@pytest.fixture
async def mover(moving_services: Services, settings: Settings, verifier: TokenVerifier) -> AsyncIterator[Caller]:
    """The admin of a tenant with three entries."""
    tenant = await moving_services.tenants.create(NewTenant("moving"), actor="test")
    app = create_app(settings, moving_services, verifier)
    async with LifespanManager(app), open_client(app) as http:
        admin = Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
        for n in range(3):
            await admin.add(f"entry number {n}")
        yield admin


async def work(services: Services, made: TestDatabase) -> None:
    while True:
        await execute(made.superuser_dsn, "update jobs set run_at = now() where state = 'queued'")
        if not await services.worker.run_once():
            return


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "unheard-of"}, "model"),
        ({"provider": "openai", "model": "text-embedding-3-small"}, "model"),
        ({"model": "text-hash", "dimensions": 23}, "model"),
        ({}, "model"),
    ],
)
async def test_a_model_that_is_not_registered_is_refused(admin: Caller, body: Any, field: str) -> None:
    expect_fields(await admin.post("/admin/reembed", body), field)
    expect_problem(await admin.get("/admin/reembed"), 404)


async def test_an_admin_does_not_see_other_tenants_model_changes(
    mover: Caller, moving_services: Services, fresh_database: TestDatabase
) -> None:
    other = await moving_services.tenants.create(NewTenant("other"), actor="test")
    stranger = Caller(mover.http, other.id, make_token(other.id, Role.TENANT_ADMIN))
    await mover.post("/admin/reembed", {})
    expect_problem(await stranger.get("/admin/reembed"), 404)
    expect_problem(await stranger.delete("/admin/reembed"), 404)
    await work(moving_services, fresh_database)
    assert (await stranger.get("/admin/stats")).json()["model"]["dimensions"] == 16


ASKED = "order of routes"
BEST = "the order of routes is fixed"
CONTENTS = ("order order order", "routes routes routes order", BEST, "order of nothing")


@dataclass(frozen=True, slots=True)
class Served:
    """The application with a reranker, its services, and an admin of a tenant with entries."""

    app: FastAPI
    services: Services
    admin: Caller


@pytest.fixture
async def served(
    api_database: TestDatabase,
    provider: FailingProvider,
    settings: Settings,
    verifier: TokenVerifier,
    rerank_wire: RerankWire,
) -> AsyncIterator[Served]:
    reranker = ResilientReranker(RerankServer(f"{rerank_wire.url}/tei/rerank", "tei"), 2.0)
    database = Database(api_database.service_dsn, pool_size=3)
    services = await build_services(database, provider, reranker=reranker, rerank_candidates=10)
    tenant = await services.tenants.create(NewTenant(f"r-{new_id().hex}"), actor="test")
    app = create_app(settings, services, verifier)
    async with LifespanManager(app), open_client(app) as http:
        admin = Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
        for content in CONTENTS:
            await admin.add(content, language="simple")
        yield Served(app, services, admin)
    await services.close()
    await reranker.close()
    await database.close()


async def test_every_way_to_a_search_is_reranked(served: Served, rerank_wire: RerankWire) -> None:
    admin = served.admin
    request: dict[str, Any] = {"query": ASKED, "mode": "keyword", "explain": True}
    found = await admin.search(**request)
    assert found["results"][0]["content"] == BEST
    assert found["metadata"]["reranked"] is True
    assert found["debug_info"]["hits"][0]["rerank_rank"] == 1
    assert found["debug_info"]["reranker"] == {"name": "tei", "candidates": 4, "failed_attempts": None}
    order = [hit["id"] for hit in found["results"]]

    batch = await admin.post("/knowledge/search/batch", {"searches": [request, {**request, "rerank": False}]})
    first, second = (outcome["result"] for outcome in batch.json()["results"])
    assert [hit["id"] for hit in first["results"]] == order
    assert (first["metadata"]["reranked"], second["metadata"]["reranked"]) == (True, False)

    saved = await admin.post("/knowledge/saved-searches", {"name": "r", "request": {**request, "rerank": True}})
    assert saved.json()["request"]["rerank"] is True
    run = await admin.post(f"/knowledge/saved-searches/{saved.json()['id']}/run")
    assert [hit["id"] for hit in run.json()["results"]] == order

    why = await admin.post("/knowledge/search/why-not", {"entry_id": order[3], "request": {**request, "limit": 1}})
    assert [reason["stage"] for reason in why.json()["reasons"]] == ["cut", "reranker"]

    receipt = await admin.get(f"/admin/searches/{found['metadata']['search_id']}")
    assert [entry["rerank_rank"] for entry in receipt.json()["ranking"]] == [1, 2, 3, 4]

    async with connect(served.app, admin.token) as client:
        answer, _ = await succeed(client, "kb_search", query=ASKED)
        assert answer["results"][0]["content"] == BEST
        assert [hit["id"] for hit in answer["results"]] == order
        rerank_wire.script = [Reply(401)]
        answer, text = await succeed(client, "kb_search", query=ASKED)
        assert answer["metadata"]["degraded"] == ["reranker_unavailable"]
        assert "The reranker is unavailable" in text

    scrape = (await Observation(served.services).render()).decode()
    assert 'knowledge_provider_circuit_open{operation="rerank",provider="reranker"} 0.0' in scrape
    assert 'knowledge_search_leg_seconds_count{leg="reranking"}' in scrape


async def test_the_tenants_setting_is_the_default_of_its_searches_and_can_forbid_it(served: Served) -> None:
    admin = served.admin

    async def is_reranked(**fields: object) -> bool:
        found = await admin.search(ASKED, mode="keyword", **fields)
        return bool(found["metadata"]["reranked"])

    assert (await admin.get("/admin/settings")).json()["rerank"] is None
    assert (await admin.patch("/admin/settings", {"rerank": False})).json()["rerank"] is False
    assert [await is_reranked(), await is_reranked(rerank=False)] == [False, False]
    forbidden = await admin.post("/knowledge/search", {"query": ASKED, "rerank": True})
    assert (forbidden.status_code, forbidden.json()["errors"][0]["field"]) == (422, "rerank")
    assert (await admin.patch("/admin/settings", {"rerank": None})).json()["rerank"] is None
    assert [await is_reranked(), await is_reranked(rerank=False)] == [True, False]
