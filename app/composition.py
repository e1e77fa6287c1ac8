"""The composition root: builds database, provider and services once, from settings or from given parts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from app.auth.jwks import JwksCache
from app.auth.secret import ensure_secret
from app.auth.tokens import TokenVerifier
from app.bootstrap import DatabaseAddresses, open_database
from app.db import catalog
from app.db.session import Database
from app.db.tenants import list_models, list_tenants
from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import EmbeddingModel, EmbeddingProvider
from app.errors import ConfigurationError
from app.knowledge.administration import AdministrationService
from app.knowledge.assets import AssetService
from app.knowledge.embedding import EntryEmbedder
from app.knowledge.entries import EntryService
from app.knowledge.ingestion import Ingestion
from app.knowledge.jobs import JobQueue
from app.knowledge.journal import SearchJournal
from app.knowledge.plan import SearchDefaults
from app.knowledge.query import Weights
from app.knowledge.related import RelatedService
from app.knowledge.search import KnowledgeSearchService
from app.knowledge.tenants import TenantDirectory
from app.knowledge.upkeep import Upkeep
from app.knowledge.worker import Worker
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that a way in needs; each service may be used from any task of one event loop."""

    database: Database
    provider: EmbeddingProvider
    tenants: TenantDirectory
    search: KnowledgeSearchService
    entries: EntryService
    assets: AssetService
    related: RelatedService
    administration: AdministrationService
    embedder: EntryEmbedder
    journal: SearchJournal
    jobs: JobQueue
    worker: Worker


async def build_services(
    database: Database,
    provider: EmbeddingProvider,
    *,
    defaults: SearchDefaults | None = None,
    max_upload_bytes: int = 50 * 1024 * 1024,
    worker_concurrency: int = 1,
) -> Services:
    """Build the services over a database and a provider, e.g. for a workflow engine with an engine of its own.

    Raises ConfigurationError when the provider's model is not registered, or a tenant is on another model.
    """
    defaults = defaults or SearchDefaults()
    model_id = await find_model(database, provider.model)
    providers = {model_id: provider}
    jobs = JobQueue()
    tenants = TenantDirectory(database, default_model_id=model_id)
    journal = SearchJournal(database)
    embedder = EntryEmbedder(database, providers, tenants)
    upkeep = Upkeep(database, tenants, jobs, exact_limit=defaults.exact_limit)
    ingestion = Ingestion(database, providers, tenants)
    return Services(
        database=database,
        provider=provider,
        tenants=tenants,
        search=KnowledgeSearchService(database, providers, tenants, journal, defaults),
        entries=EntryService(database, embedder, jobs),
        assets=AssetService(database, jobs, max_bytes=max_upload_bytes),
        related=RelatedService(database),
        administration=AdministrationService(database, tenants),
        embedder=embedder,
        journal=journal,
        jobs=jobs,
        worker=Worker(database, jobs, ingestion, embedder, upkeep, concurrency=worker_concurrency),
    )


@contextlib.asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """The services as the settings describe them, with the database they need.

    Raises ConfigurationError with one line that says what is missing.
    """
    async with open_database(settings) as addresses, _services_at(settings, addresses) as services:
        yield services


@contextlib.asynccontextmanager
async def _services_at(settings: Settings, addresses: DatabaseAddresses) -> AsyncIterator[Services]:
    await check_database(addresses.service)
    database = Database(
        addresses.service,
        pool_size=settings.database.pool_size,
        pool_timeout=settings.database.timeout,
        connect_timeout=settings.database.timeout,
        statement_timeout=settings.database.statement_timeout,
        prepared_statements=settings.database.prepared_statements,
    )
    provider = await asyncio.to_thread(build_provider, provider_config(settings))
    try:
        services = await build_services(
            database,
            provider,
            defaults=SearchDefaults(
                weights=Weights(settings.search.semantic_weight, settings.search.keyword_weight),
                similarity_threshold=settings.search.similarity_threshold,
                exact_limit=settings.search.exact_limit,
            ),
            max_upload_bytes=settings.ingestion.max_upload_bytes,
            worker_concurrency=settings.ingestion.concurrency,
        )
        try:
            yield services
        finally:
            await services.journal.close()
    finally:
        await provider.close()
        await database.close()


async def check_database(service_dsn: str) -> None:
    """Raise ConfigurationError unless the database can be served by a role that row-level security binds."""
    connection = await catalog.connect(service_dsn, "DATABASE_URL")
    try:
        await catalog.check_server(connection)
        await catalog.check_service_role(connection)
        await catalog.check_schema(connection)
    finally:
        await connection.close()


async def find_model(database: Database, model: EmbeddingModel) -> int:
    """The number of a registered model that all tenants use. Raises ConfigurationError."""
    async with database.platform_session() as session:
        models = {row["id"]: row for row in await list_models(session)}
        tenants = await list_tenants(session)
    key = (model.provider, model.name, model.dimensions)
    found: int | None = next(
        (i for i, m in models.items() if (m["provider"], m["name"], m["dimensions"]) == key), None
    )
    if found is None:
        raise ConfigurationError(
            f"EMBEDDING_PROVIDER: the model {model.provider}/{model.name} with {model.dimensions} dimensions"
            " is not registered; run: knowledge migrate"
        )
    for tenant in tenants:
        if tenant["model_id"] != found:
            other = models[tenant["model_id"]]
            raise ConfigurationError(
                f"EMBEDDING_PROVIDER: tenant {tenant['slug']} has vectors of {other['provider']}/{other['name']}"
                f" with {other['dimensions']} dimensions, which {model.provider}/{model.name} cannot search;"
                " set EMBEDDING_PROVIDER and EMBEDDING_MODEL to that model"
            )
    return found


def provider_config(settings: Settings) -> ProviderConfig:
    """The provider's part of the settings."""
    embedding = settings.embedding
    key = {"openai": embedding.openai_api_key, "gemini": embedding.gemini_api_key}.get(embedding.provider)
    url = {"openai": embedding.openai_base_url, "gemini": embedding.gemini_base_url}.get(embedding.provider)
    return ProviderConfig(
        kind=embedding.provider,
        model=embedding.model,
        dimensions=embedding.dimensions,
        api_key=key.get_secret_value() if key else None,
        base_url=url,
        query_timeout=embedding.query_timeout,
    )


def shared_secret(settings: Settings) -> str | None:
    """The HS256 secret: the configured one, or the one that the embedded mode makes and keeps; None with JWKS."""
    if settings.jwt.secret is not None:
        return settings.jwt.secret.get_secret_value()
    if settings.jwt.jwks_url is None and settings.database.embedded:
        return ensure_secret(settings.database.data_dir)
    return None


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings) -> AsyncIterator[TokenVerifier]:
    """The verifier of callers' tokens that the settings choose. Raises ConfigurationError."""
    jwt = settings.jwt
    if jwt.jwks_url is None:
        yield TokenVerifier(secret=shared_secret(settings), audience=jwt.audience, issuer=jwt.issuer)
        return
    async with httpx.AsyncClient(trust_env=False) as client:
        keys = JwksCache(jwt.jwks_url, client)
        try:
            yield TokenVerifier(keys=keys, audience=jwt.audience, issuer=jwt.issuer)
        finally:
            await keys.close()
