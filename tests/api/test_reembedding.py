"""Moving a tenant to another model over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any

import pytest
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.models import ModelChange
from app.db.database import Database
from app.db.schema.owner import register_model
from app.main import create_app
from app.settings import Settings
from tests.fixtures.database.cluster import MODEL, TestDatabase, connected
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem, is_time
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.reembedding.moving import WIDER

FIELDS = {field.name for field in fields(ModelChange)}


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
        async with connected(made.superuser_dsn) as superuser:
            await superuser.execute("update jobs set run_at = now() where state = 'queued'")
        if not await services.worker.run_once():
            return


@pytest.mark.slow
async def test_a_tenant_moves_to_another_model_back_and_there_again(
    mover: Caller, moving_services: Services, fresh_database: TestDatabase
) -> None:
    expect_problem(await mover.get("/admin/reembed"), 404)
    wanted = {
        "provider": "mock",
        "model": "text-hash",
        "dimensions": 24,
        "switch_at_overlap": None,
        "rate": 600,
    }
    answer = await mover.post("/admin/reembed", wanted)
    assert answer.status_code == 202
    change = answer.json()
    assert set(change) == FIELDS
    assert (change["state"], change["rate"], change["switch_at_overlap"]) == ("filling", 600, None)
    assert change["old"] == {"provider": "mock", "name": "text-hash", "dimensions": 16}
    assert change["new"] == {"provider": "mock", "name": "text-hash", "dimensions": 24}
    assert is_time(change["started_at"])
    expect_problem(await mover.post("/admin/reembed/switch"), 409)
    expect_problem(await mover.post("/admin/reembed", {"dimensions": 16}), 409)
    change = (await mover.post("/admin/reembed", {"dimensions": 24, "rate": 1200})).json()
    assert (change["rate"], change["switch_at_overlap"]) == (1200, None)

    await work(moving_services, fresh_database)
    change = (await mover.get("/admin/reembed")).json()
    assert (change["state"], change["progress"]) == ("ready", 1.0)
    assert change["comparison"]["queries"] == 0
    assert change["decision"]["basis"] == "request"
    assert (await mover.get("/admin/stats")).json()["model"]["dimensions"] == 16

    assert (await mover.post("/admin/reembed/switch")).json()["state"] == "switched"
    assert (await mover.get("/admin/stats")).json()["model"]["dimensions"] == 24
    found = await mover.search("entry number 1", mode="semantic", similarity_threshold=0.9)
    assert [hit["content"] for hit in found["results"]] == ["entry number 1"]
    expect_fields(await mover.post("/knowledge/search", {"query": "x", "query_embedding": [1] * 16}), "query_embedding")

    assert (await mover.post("/admin/reembed/switch-back")).json()["state"] == "ready"
    assert (await mover.get("/admin/stats")).json()["model"]["dimensions"] == 16
    assert (await mover.post("/admin/reembed/switch")).json()["state"] == "switched"

    assert (await mover.delete("/admin/reembed")).status_code == 204
    expect_problem(await mover.post("/admin/reembed/switch-back"), 409)
    await work(moving_services, fresh_database)
    expect_problem(await mover.get("/admin/reembed"), 404)
    assert (await mover.get("/admin/stats")).json()["passages"] == 3


async def test_by_default_too_little_evidence_waits_for_the_switch(
    mover: Caller, moving_services: Services, fresh_database: TestDatabase
) -> None:
    started = await mover.post("/admin/reembed", {})
    assert started.status_code == 202
    assert started.json()["decision"]["switch"] == "undecided"
    await work(moving_services, fresh_database)
    change = (await mover.get("/admin/reembed")).json()
    assert (change["state"], change["switch_at_overlap"]) == ("ready", 0.8)
    assert (change["decision"]["switch"], change["decision"]["basis"]) == ("by_hand", "too_little_evidence")
    assert "20 queries are needed" in change["decision"]["reason"]
    assert (await mover.get("/admin/stats")).json()["model"]["dimensions"] == 16
    switched = (await mover.post("/admin/reembed/switch")).json()
    assert (switched["state"], switched["comparison"]) == ("switched", change["comparison"])


async def test_the_model_in_use_is_rebuilt(
    mover: Caller, moving_services: Services, fresh_database: TestDatabase
) -> None:
    started = await mover.post("/admin/reembed", {"provider": "mock", "dimensions": 16})
    assert (started.status_code, started.json()["rebuild"], started.json()["state"]) == (202, True, "filling")
    expect_problem(await mover.post("/admin/reembed/switch"), 409)
    await work(moving_services, fresh_database)
    change = (await mover.get("/admin/reembed")).json()
    assert (change["state"], change["progress"], change["old"]) == ("switched", 1.0, change["new"])
    assert (await mover.delete("/admin/reembed")).status_code == 204
    expect_problem(await mover.get("/admin/reembed"), 404)
    assert (await mover.get("/admin/stats")).json()["passages"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": "unheard-of"}, "model"),
        ({"provider": "openai", "model": "text-embedding-3-small"}, "model"),
        ({"model": "text-hash", "dimensions": 23}, "model"),
        ({}, "model"),
        ({"model": ""}, "model"),
        *(({"rate": value}, "rate") for value in (0, -1, 1.5, "fast")),
        *(({"switch_at_overlap": value}, "switch_at_overlap") for value in (-0.1, 1.1, "x")),
        *(({"dimensions": value}, "dimensions") for value in (0, 4001, "x")),
        ({"tenant_id": "x"}, "tenant_id"),
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
