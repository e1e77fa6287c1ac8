"""The application over a provider that fails on demand, with retries, circuit breaker and cache as in production."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.db.database import Database
from app.db.rows import new_id
from app.embedded import EmbeddedAddress
from app.embeddings.resilience import QueryCache, ResiliencePolicy, ResilientProvider
from app.main import create_app
from app.resilience import CallBudget
from app.settings import IngestionSettings, Settings
from tests.fixtures.database.cluster import MODEL, TestDatabase, new_database
from tests.fixtures.http.callers import SECRET, Caller, make_token, open_client
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.workers import run_due

POLICY = ResiliencePolicy(
    attempts=2, query=CallBudget(2.0, 0.001), documents=CallBudget(2.0, 0.001), failure_threshold=3
)


@dataclass(frozen=True, slots=True)
class Operated:
    """A running application and its parts."""

    app: FastAPI
    services: Services
    provider: FailingProvider
    database: TestDatabase
    http: httpx.AsyncClient

    async def make_tenant(self) -> Tenant:
        return await self.services.tenants.create(NewTenant(f"t-{new_id().hex}", "Tests"), actor="test")

    def call_as(self, tenant: Tenant, role: Role = Role.TENANT_ADMIN) -> Caller:
        """A caller of the tenant."""
        return Caller(self.http, tenant.id, make_token(tenant.id, role))

    async def work(self) -> None:
        """Run all queued work that is due."""
        await run_due(self.services.worker)


@contextlib.asynccontextmanager
async def open_operated(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Operated]:
    """An application over a database of its own; no worker runs on its own."""
    async with new_database(cluster, template=template) as made:
        provider = FailingProvider(MODEL)
        database = Database(made.service_dsn, pool_size=5)
        services = await build_services(database, QueryCache(ResilientProvider(provider, POLICY)))
        settings = Settings(ingestion=IngestionSettings(worker=False))
        app = create_app(settings, services, TokenVerifier(secret=SECRET))
        async with LifespanManager(app), open_client(app) as http:
            yield Operated(app, services, provider, made, http)
        await services.close()
        await database.close()
