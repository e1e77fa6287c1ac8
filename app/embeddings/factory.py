"""Builds the configured provider; the only module that refers to all of them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from app.concurrency.part import Part
from app.embeddings.provider import (
    E5,
    FASTEMBED,
    GEMINI,
    LOCAL,
    OPENAI,
    BatchLimits,
    EmbeddingModel,
    EmbeddingProvider,
    resolve_model,
)
from app.embeddings.resilience import QueryCache, QueryQueue, ResiliencePolicy, ResilientProvider
from app.errors import ConfigurationError
from app.resilience import CallBudget

# The time limit applies to a batch, and E5 takes 0.3 s for a chunk on an idle machine.
_LOCAL_BATCH = BatchLimits(texts=16)
_DEFAULT = ResiliencePolicy()


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The provider to build; None selects the provider's default. Times are in seconds.

    `api_key` and `base_url` belong to the chosen provider; those in this process ignore them. `folder` has the models
    of fastembed. `part` is this process's part of a service of several processes, each with a provider of its own.
    """

    kind: str = LOCAL
    model: str | None = None
    dimensions: int | None = None
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    query_timeout: float = _DEFAULT.query.timeout
    document_timeout: float = _DEFAULT.documents.timeout
    attempts: int = _DEFAULT.attempts
    failure_threshold: int = _DEFAULT.failure_threshold
    cache_entries: int = 50
    folder: Path = Path(".data/models")
    part: Part | None = None


def build_provider(config: ProviderConfig) -> QueryCache:
    """Build the provider, wrapped in retries, a circuit breaker and a query cache. Raises ConfigurationError, one line
    that names the setting, for a configuration that cannot work."""
    model = resolve_model(config.kind, config.model, config.dimensions)
    source = _build_source(model, config)
    policy = replace(
        _DEFAULT,
        attempts=config.attempts,
        query=replace(_DEFAULT.query, timeout=config.query_timeout),
        documents=CallBudget(config.document_timeout, _DEFAULT.documents.first_delay),
        failure_threshold=config.failure_threshold,
        batch=source.batch,
        slow_is_down=source.places is None,
    )
    provider: EmbeddingProvider = ResilientProvider(source.provider, policy)
    if source.places is not None:
        provider = QueryQueue(provider, source.places, config.query_timeout, config.part)
    return QueryCache(provider, entries=config.cache_entries)


@dataclass(frozen=True, slots=True)
class _Source:
    """An unwrapped provider, its batch limits, and for a model in this process its number of concurrent queries."""

    provider: EmbeddingProvider
    batch: BatchLimits = _DEFAULT.batch
    places: int | None = None


def _build_source(model: EmbeddingModel, config: ProviderConfig) -> _Source:
    match model.provider:
        case "openai":
            _check_access(OPENAI, config)
            from app.embeddings.providers.openai import OpenAIProvider

            openai = OpenAIProvider(
                model, api_key=config.api_key, base_url=config.base_url, timeout=config.document_timeout
            )
            return _Source(openai, openai.batch)
        case "gemini":
            _check_access(GEMINI, config)
            return _build_gemini(model, config)
        case "fastembed":
            return _build_fastembed(model, config)
        case "mock":
            from app.embeddings.providers.mock import MockProvider

            return _Source(MockProvider(model))
        case _:
            return _build_e5() if model.name == E5 else _build_minilm(config.part)


def _build_minilm(part: Part | None) -> _Source:
    from app.embeddings.providers.local import LocalProvider, load_minilm

    local = LocalProvider(load_minilm(), processes=1 if part is None else part.processes)
    return _Source(local, _LOCAL_BATCH, local.query_threads)


def _build_e5() -> _Source:
    try:
        from app.embeddings.providers.e5 import E5Provider, load_e5
    except ImportError:
        raise _name_missing_extra("EMBEDDING_MODEL", E5, "multilingual") from None
    e5 = E5Provider(load_e5())
    return _Source(e5, _LOCAL_BATCH, e5.query_threads)


def _build_gemini(model: EmbeddingModel, config: ProviderConfig) -> _Source:
    try:
        from app.embeddings.providers.gemini import GeminiProvider
    except ImportError:
        raise _name_missing_extra("EMBEDDING_PROVIDER", GEMINI, "gemini") from None
    gemini = GeminiProvider(model, api_key=config.api_key, base_url=config.base_url, timeout=config.document_timeout)
    return _Source(gemini, gemini.batch)


def _build_fastembed(model: EmbeddingModel, config: ProviderConfig) -> _Source:
    try:
        from app.embeddings.providers.fastembed import FastembedProvider
    except ImportError:
        raise _name_missing_extra("EMBEDDING_PROVIDER", FASTEMBED, "fastembed") from None
    fastembed = FastembedProvider(model, config.folder)
    return _Source(fastembed, _LOCAL_BATCH, fastembed.query_threads)


def _name_missing_extra(setting: str, value: str, extra: str) -> ConfigurationError:
    return ConfigurationError(setting, f"{value} is not installed", f"run: pip install 'knowledge-search[{extra}]'")


def _check_access(kind: str, config: ProviderConfig) -> None:
    prefix = kind.upper()
    if config.base_url:
        if not config.base_url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{prefix}_BASE_URL", "must start with http:// or https://")
    elif not config.api_key:
        raise ConfigurationError(
            f"{prefix}_API_KEY",
            f"EMBEDDING_PROVIDER={kind} needs a key, or {prefix}_BASE_URL with the address of a server that takes none",
        )
