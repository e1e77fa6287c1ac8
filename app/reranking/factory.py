"""Builds the configured reranker."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.errors import ConfigurationError
from app.reranking.reranker import ResilientReranker
from app.reranking.server import Form, RerankServer


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """The server to call: the whole address of its endpoint, and the form of its API. `timeout` is in seconds."""

    url: str
    form: Form = "cohere"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 2.0


def build_reranker(config: RerankerConfig) -> ResilientReranker:
    """Build the reranker, wrapped in retries and a circuit breaker.

    Raises ConfigurationError, one line that names the setting, for a configuration that cannot work.
    """
    parts = urlsplit(config.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("KB_RERANKER_URL", "must start with http:// or https://")
    if not parts.path.strip("/"):
        raise ConfigurationError(
            "KB_RERANKER_URL",
            "must be the whole address of the endpoint, for example http://127.0.0.1:8080/rerank",
        )
    key = config.api_key
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
        raise ConfigurationError("KB_RERANKER_API_KEY", "must have printable ASCII characters only")
    server = RerankServer(config.url, config.form, model=config.model, api_key=key, timeout=config.timeout)
    return ResilientReranker(server, config.timeout)
