"""The configured embedding models and providers."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence

from pydantic import SecretStr

from app.concurrency.part import Part
from app.db.database import Database
from app.db.principals import acting_for_service
from app.db.queries.reembedding import lock_tenant, use_model
from app.db.queries.tenants import TenantModel, has_entries, list_models, list_models_of_tenants
from app.db.session import TenantSession
from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import PROVIDERS, EmbeddingModel, EmbeddingProvider, resolve_model
from app.errors import ConfigurationError
from app.reranking import RerankerConfig, ResilientReranker, build_reranker
from app.settings import Settings

_WAITING = 16
"""Simultaneous searches per core, if searches mostly wait for another server."""

_NEXT = {f"EMBEDDING_{name}": f"EMBEDDING_NEXT_{name}" for name in ("PROVIDER", "MODEL", "DIMENSIONS")}


def configured_model(settings: Settings) -> EmbeddingModel:
    """The configured model. Raises ConfigurationError."""
    embedding = settings.embedding
    return resolve_model(embedding.provider, embedding.model, embedding.dimensions)


def configured_models(settings: Settings) -> list[EmbeddingModel]:
    """All configured models: one, or two if tenants can change their model. Raises ConfigurationError."""
    following = settings.next_embedding
    models = [configured_model(settings)]
    if following.provider is not None:
        with _blaming_next():
            models.append(resolve_model(following.provider, following.model, following.dimensions))
    return models


def provider_configs(settings: Settings, part: Part | None = None) -> list[ProviderConfig]:
    """The configurations of the providers: one, or two if tenants can change their model."""
    embedding, following = settings.embedding, settings.next_embedding

    def configure(
        kind: str, model: str | None, dimensions: int | None, key: SecretStr | None, url: str | None
    ) -> ProviderConfig:
        if kind in ("openai", "gemini") and url is None:
            # A key is sent only to the address that it was configured for.
            key = key or getattr(embedding, f"{kind}_api_key")
            url = getattr(embedding, f"{kind}_base_url")
        secret = key.get_secret_value() if key else None
        return ProviderConfig(
            kind,
            model,
            dimensions,
            secret,
            url,
            query_timeout=embedding.query_timeout,
            folder=embedding.model_folder,
            part=part,
        )

    configs = [configure(embedding.provider, embedding.model, embedding.dimensions, None, None)]
    if (kind := following.provider) is not None:
        own = following
        configs.append(configure(kind, own.model, own.dimensions, own.api_key, own.base_url))
    return configs


def build_configured_reranker(settings: Settings) -> ResilientReranker | None:
    """Build the reranker, if there is one. Raises ConfigurationError."""
    given = settings.reranker
    if given.url is None and not given.is_local:
        return None
    key = given.api_key.get_secret_value() if given.api_key else None
    folder = settings.embedding.model_folder
    return build_reranker(RerankerConfig(given.url, given.api, given.model, key, given.timeout, folder))


def searches_per_core(settings: Settings) -> int:
    """Simultaneous searches per core: many with a remote provider or a reranker, where a search mostly waits."""
    remote = settings.reranker.url is not None or settings.embedding.provider in ("openai", "gemini")
    return _WAITING if remote else 1


def build_providers(settings: Settings, part: Part | None = None) -> list[EmbeddingProvider]:
    """Build the configured providers, for one of several processes if there is a `part`. Raises ConfigurationError."""
    first, *others = provider_configs(settings, part)
    providers: list[EmbeddingProvider] = [build_provider(first)]
    with _blaming_next():
        providers += [build_provider(config) for config in others]
    return providers


@contextlib.contextmanager
def _blaming_next() -> Iterator[None]:
    """Attribute errors to the EMBEDDING_NEXT_* settings."""
    try:
        yield
    except ConfigurationError as error:
        setting = _NEXT.get(error.setting or "", error.setting)
        raise ConfigurationError(setting, error.problem, error.remedy) from None


async def find_models(database: Database, served: Sequence[EmbeddingModel]) -> list[int]:
    """Find the ids of the served models.

    Raises ConfigurationError for a model that is not registered, and for a tenant that has entries and uses none of the
    models: its semantic searches would find nothing.
    """
    async with database.platform_session() as session:
        models = {m.id: m.model for m in await list_models(session)}
    numbers = {(m.provider, m.name, m.dimensions): i for i, m in models.items()}
    found: list[int] = []
    for model, prefix in zip(served, ("EMBEDDING", "EMBEDDING_NEXT"), strict=False):
        number = numbers.get((model.provider, model.name, model.dimensions))
        if number is None:
            remedy = f"run: knowledge {'migrate' if prefix == 'EMBEDDING' else 'model add --next'}"
            if model.provider not in PROVIDERS:
                remedy = "call: await register_model(DATABASE_ADMIN_URL, provider.model)"
            raise ConfigurationError(
                f"{prefix}_PROVIDER",
                f"the model {model.provider}/{model.name} with {model.dimensions} dimensions is not registered",
                remedy,
            )
        if number in found:
            raise ConfigurationError("EMBEDDING_NEXT_PROVIDER", "must name another model than EMBEDDING_PROVIDER")
        found.append(number)
    for tenant in await _list_others(database, found):
        async with _opened(database, tenant) as session:
            is_used = await has_entries(session)
        if is_used:
            other = models[tenant.model_id]
            present = " and ".join(f"{model.provider}/{model.name}" for model in served)
            raise ConfigurationError(
                "EMBEDDING_PROVIDER",
                f"tenant {tenant.slug} has vectors of {other.provider}/{other.name} with "
                f"{other.dimensions} dimensions, which {present} cannot search",
                "set EMBEDDING_PROVIDER and EMBEDDING_MODEL to that model, or EMBEDDING_NEXT_PROVIDER while "
                "tenants move from one to the other",
            )
    return found


async def adopt_empty_tenants(database: Database, served: Sequence[int]) -> None:
    """Give tenants without entries the first of the served models, unless they use another of these."""
    for tenant in await _list_others(database, served):
        async with _opened(database, tenant) as session:
            # Waits for the writer of a first entry, and blocks the next.
            if await lock_tenant(session) == tenant.model_id and not await has_entries(session):
                await use_model(session, served[0])


async def _list_others(database: Database, served: Sequence[int]) -> list[TenantModel]:
    """The tenants whose model is not served."""
    async with database.platform_session() as session:
        return [tenant for tenant in await list_models_of_tenants(session) if tenant.model_id not in served]


@contextlib.asynccontextmanager
async def _opened(database: Database, tenant: TenantModel) -> AsyncIterator[TenantSession]:
    with acting_for_service():
        async with database.tenant_session(tenant.id) as session:
            yield session
