"""Reading the settings from the environment and from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from app.errors import ConfigurationError
from app.settings.env_file import read_env_file
from app.settings.groups import Settings, SettingsGroup
from app.settings.sources import check_sources

_WEIGHT_TOLERANCE = 1e-9


def load_settings(
    env: Mapping[str, str] | None = None,
    env_file: str | Path | None = None,
    *,
    identity_required: bool = True,
) -> Settings:
    """Read the settings; the environment wins over `env_file`, and an empty value means unset.

    `env` replaces the process environment. `identity_required=False` is for commands that verify no tokens
    (a migration, a worker): they need no JWT setting. Raises ConfigurationError with one line that names each
    wrong variable and what is allowed, and for a key and its address from different sources.
    """
    environment = os.environ if env is None else env
    file = {} if env_file is None else _read_optional(Path(env_file))
    check_sources(file, environment)
    values = {**file, **environment}
    grouped: dict[str, dict[str, str]] = {}
    for group, names in _variables_by_group().items():
        stripped = {name: values[name].strip() for name in names if name in values}
        grouped[group] = {name: value for name, value in stripped.items() if value}
    try:
        settings = Settings(**grouped)  # type: ignore[arg-type]  # pydantic validates the raw text
    except ValidationError as error:
        raise _describe(error) from None
    _check_consistency(settings, identity_required=identity_required)
    return settings


def variable_names() -> tuple[str, ...]:
    """The names of all environment variables that are read, in the order of the groups."""
    return tuple(name for names in _variables_by_group().values() for name in names)


def _variables_by_group() -> dict[str, list[str]]:
    return {
        group: [str(field.validation_alias) for field in annotation.model_fields.values()]
        for group, info in Settings.model_fields.items()
        if isinstance(annotation := info.annotation, type) and issubclass(annotation, SettingsGroup)
    }


def _read_optional(env_file: Path) -> dict[str, str]:
    try:
        return read_env_file(env_file)
    except FileNotFoundError:
        return {}


def _describe(error: ValidationError) -> ConfigurationError:
    """Name every invalid variable, but no value, because a value may be or contain a secret."""
    allowed = {
        str(field.validation_alias): field.description
        for info in Settings.model_fields.values()
        if isinstance(group := info.annotation, type) and issubclass(group, SettingsGroup)
        for field in group.model_fields.values()
    }
    names = dict.fromkeys(str(problem["loc"][1]) for problem in error.errors() if len(problem["loc"]) > 1)
    wrong = [ConfigurationError(name, f"must be {allowed.get(name)}") for name in names]
    return wrong[0] if len(wrong) == 1 else ConfigurationError(None, "; ".join(map(str, wrong)))


def _check_consistency(settings: Settings, *, identity_required: bool) -> None:
    """Raise ConfigurationError for valid settings that contradict each other."""
    search, embedding, jwt, server = settings.search, settings.embedding, settings.jwt, settings.server
    if abs(search.semantic_weight + search.keyword_weight - 1) > _WEIGHT_TOLERANCE:
        raise ConfigurationError("KB_RRF_SEMANTIC_WEIGHT and KB_RRF_KEYWORD_WEIGHT", "must add up to 1")
    if search.default_limit > search.max_limit:
        raise ConfigurationError("KB_SEARCH_DEFAULT_LIMIT", "must not be greater than KB_SEARCH_MAX_LIMIT")
    if server.metrics_port == server.port:
        raise ConfigurationError("KB_METRICS_PORT", "must differ from KB_PORT, or be empty")
    if embedding.provider == "local" and embedding.dimensions not in (None, 384):
        raise ConfigurationError("EMBEDDING_DIMENSIONS", "must be 384 or empty with EMBEDDING_PROVIDER=local")
    if embedding.provider == "openai" and not (embedding.openai_api_key or embedding.openai_base_url):
        raise ConfigurationError(
            "OPENAI_API_KEY", "must be set with EMBEDDING_PROVIDER=openai, unless OPENAI_BASE_URL is set"
        )
    if embedding.provider == "gemini" and not (embedding.gemini_api_key or embedding.gemini_base_url):
        raise ConfigurationError(
            "GEMINI_API_KEY", "must be set with EMBEDDING_PROVIDER=gemini, unless GEMINI_BASE_URL is set"
        )
    _check_next_model(settings)
    if settings.reranker.url is None:
        unused = {"MODEL": settings.reranker.model, "API_KEY": settings.reranker.api_key}
        for part, given in unused.items():
            if given is not None:
                raise ConfigurationError(f"KB_RERANKER_{part}", "has no effect without KB_RERANKER_URL")
    if settings.database.embedded:
        others = {
            "DATABASE_DIRECT_URL": settings.database.direct_url,
            "DATABASE_REPLICA_URLS": settings.database.replica_urls,
        }
        for name, value in others.items():
            if value:
                raise ConfigurationError(name, "has no effect without DATABASE_URL")
    for name, secret in (("JWT_SECRET", jwt.secret), ("JWT_SECRETS", jwt.secrets)):
        if secret and jwt.jwks_url:
            raise ConfigurationError(f"{name} and JWT_JWKS_URL", "must not both be set", "keep one of them")
    if jwt.mcp_scopes and not jwt.mcp_issuer:
        raise ConfigurationError("KB_MCP_SCOPES", "has no effect without KB_MCP_ISSUER")
    if jwt.mcp_issuer and not server.public_url:
        raise ConfigurationError("KB_PUBLIC_URL", "must be set with KB_MCP_ISSUER")
    if jwt.mcp_issuer and jwt.issuer not in (None, jwt.mcp_issuer):
        raise ConfigurationError(
            "KB_MCP_ISSUER", "must be the same as JWT_ISSUER, whose keys verify its tokens"
        )
    if identity_required:
        _check_sign_in(settings)
    if identity_required and not (jwt.secret or jwt.secrets or jwt.jwks_url or settings.database.embedded):
        raise ConfigurationError("JWT_SECRET or JWT_JWKS_URL", "one must be set when DATABASE_URL is set")


def _check_next_model(settings: Settings) -> None:
    following, embedding = settings.next_embedding, settings.embedding
    if following.provider is None:
        for name, value in (
            ("EMBEDDING_NEXT_MODEL", following.model),
            ("EMBEDDING_NEXT_DIMENSIONS", following.dimensions),
            ("EMBEDDING_NEXT_API_KEY", following.api_key),
            ("EMBEDDING_NEXT_BASE_URL", following.base_url),
        ):
            if value is not None:
                raise ConfigurationError(name, "has no effect without EMBEDDING_NEXT_PROVIDER")
        return
    reachable = {
        "openai": embedding.openai_api_key or embedding.openai_base_url,
        "gemini": embedding.gemini_api_key or embedding.gemini_base_url,
    }.get(following.provider, True)
    if not (reachable or following.api_key or following.base_url):
        raise ConfigurationError(
            "EMBEDDING_NEXT_API_KEY",
            f"must be set with EMBEDDING_NEXT_PROVIDER={following.provider}, unless "
            f"{following.provider.upper()}_API_KEY or EMBEDDING_NEXT_BASE_URL is set",
        )


def _check_sign_in(settings: Settings) -> None:
    oidc = settings.oidc
    if oidc.issuer is None:
        for name, value in (
            ("KB_OIDC_CLIENT_ID", oidc.client_id),
            ("KB_OIDC_CLIENT_SECRET", oidc.client_secret),
            ("KB_OIDC_ORIGINS", oidc.origins),
        ):
            if value:
                raise ConfigurationError(name, "has no effect without KB_OIDC_ISSUER")
        return
    for name, needed in (
        ("KB_OIDC_CLIENT_ID", oidc.client_id),
        ("KB_PUBLIC_URL", settings.server.public_url),
    ):
        if not needed:
            raise ConfigurationError(name, "must be set with KB_OIDC_ISSUER")
    if settings.encryption.keys is None and not settings.database.embedded:
        raise ConfigurationError(
            "KB_ENCRYPTION_KEY",
            "must be set with KB_OIDC_ISSUER: sessions are signed with a key derived from it",
        )
