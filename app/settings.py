"""Every setting of the service, from the environment or a `.env` file; only the composition root reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.errors import ConfigurationError

MIN_SECRET_BYTES = 32
"""RFC 7518, section 3.2: an HS256 key is at least as long as the hash."""

_POSTGRES_SCHEMES = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})
_WEIGHT_TOLERANCE = 1e-9


def _setting(name: str, default: object, allowed: str, **bounds: Any) -> Any:
    """Declare a field read from the variable `name`; `allowed` completes "`name` must be …"."""
    return Field(default=default, validation_alias=name, description=allowed, **bounds)


def _postgres_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    scheme, separator, rest = text.partition("://")
    parts = urlsplit(f"postgresql://{rest}")
    _ = parts.port  # raises ValueError unless it is a number up to 65535
    socket_host = "host=" in parts.query
    named = len(parts.path) > 1 and (parts.hostname or socket_host)
    if not separator or scheme not in _POSTGRES_SCHEMES or not named or any(c.isspace() for c in text):
        raise ValueError("not a Postgres address")
    return SecretStr(f"postgresql://{rest}")


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    _ = parts.port
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("not an HTTP address")
    if any(c.isspace() for c in url):
        raise ValueError("not an HTTP address")
    return url


def _host(host: str) -> str:
    if any(c.isspace() or c in "/@?#" for c in host):
        raise ValueError("not a host")
    return host


def _origins(text: object) -> object:
    """A list of web origins, as browsers send them: scheme, host, and a port that is not the scheme's own."""
    origins = [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else text
    for origin in origins if isinstance(origins, list | tuple) else ():
        parts = urlsplit(origin)
        _ = parts.port
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValueError("not a web origin")
        if not parts.hostname or parts.username or origin != origin.lower():
            raise ValueError("not a web origin")
    return origins


def _long_secret(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode("utf-8", "surrogateescape")) < MIN_SECRET_BYTES:
        raise ValueError("too short")
    return secret


def _folder(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("no such user's home") from error


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


PostgresUrl = Annotated[SecretStr, AfterValidator(_postgres_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
Folder = Annotated[Path, AfterValidator(_folder)]
"""A folder's path; `~` and `~user` stand for a home, as in a shell, which does not expand them in a `.env` file."""
Port = Annotated[int, Field(ge=1, le=65535)]


class SettingsGroup(BaseModel):
    """A group of settings; immutable, and its text never shows a secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )


_URL_FORM = "postgresql://user:password@host:port/database"
_POSTGRES_ALLOWED = f"of the form {_URL_FORM} (special characters percent-encoded), or empty"
_HTTP_ALLOWED = "an http:// or https:// address without user name and password, or empty"


class DatabaseSettings(SettingsGroup):
    """The address and use of Postgres; URLs are normalised to the scheme `postgresql://`."""

    url: PostgresUrl | None = _setting("DATABASE_URL", None, _POSTGRES_ALLOWED)
    admin_url: PostgresUrl | None = _setting("DATABASE_ADMIN_URL", None, _POSTGRES_ALLOWED)
    data_dir: Folder = _setting("KB_DATA_DIR", Path(".data"), "the path of a folder; ~ is a home that exists")
    prepared_statements: bool = _setting("DATABASE_PREPARED_STATEMENTS", True, "on or off")
    pool_size: int = _setting("KB_DATABASE_POOL_SIZE", 10, "a whole number from 1 to 500", ge=1, le=500)
    timeout: float = _setting(
        "KB_DATABASE_TIMEOUT", 5.0, "a number of seconds from 0.1 to 600", ge=0.1, le=600
    )
    statement_timeout: float = _setting(
        "KB_DATABASE_STATEMENT_TIMEOUT", 30.0, "a number of seconds from 0.1 to 3600", ge=0.1, le=3600
    )

    @property
    def embedded(self) -> bool:
        """Whether the service starts its own Postgres under `data_dir`."""
        return self.url is None


class EmbeddingSettings(SettingsGroup):
    """The embedding provider; None means the provider's default."""

    provider: Annotated[Literal["local", "openai", "gemini", "mock"], BeforeValidator(_lower)] = _setting(
        "EMBEDDING_PROVIDER", "local", "local, openai, gemini or mock"
    )
    model: str | None = _setting(
        "EMBEDDING_MODEL", None, "the name of a model of the provider", max_length=200
    )
    dimensions: int | None = _setting(
        "EMBEDDING_DIMENSIONS", None, "a whole number from 1 to 4000, or empty", ge=1, le=4000
    )
    query_timeout: float = _setting(
        "KB_EMBEDDING_QUERY_TIMEOUT", 3.0, "a number of seconds from 0.1 to 60", ge=0.1, le=60
    )
    openai_api_key: SecretStr | None = _setting("OPENAI_API_KEY", None, "a key, or empty")
    openai_base_url: HttpUrl | None = _setting("OPENAI_BASE_URL", None, _HTTP_ALLOWED)
    gemini_api_key: SecretStr | None = _setting("GEMINI_API_KEY", None, "a key, or empty")
    gemini_base_url: HttpUrl | None = _setting("GEMINI_BASE_URL", None, _HTTP_ALLOWED)


class NextEmbeddingSettings(SettingsGroup):
    """The second model, while tenants move from one to the other; without a provider, there is none."""

    provider: Annotated[Literal["local", "openai", "gemini", "mock"], BeforeValidator(_lower)] | None = (
        _setting("EMBEDDING_NEXT_PROVIDER", None, "local, openai, gemini, mock, or empty")
    )
    model: str | None = _setting(
        "EMBEDDING_NEXT_MODEL", None, "the name of a model of EMBEDDING_NEXT_PROVIDER", max_length=200
    )
    dimensions: int | None = _setting(
        "EMBEDDING_NEXT_DIMENSIONS", None, "a whole number from 1 to 4000, or empty", ge=1, le=4000
    )
    api_key: SecretStr | None = _setting("EMBEDDING_NEXT_API_KEY", None, "a key, or empty")
    base_url: HttpUrl | None = _setting("EMBEDDING_NEXT_BASE_URL", None, _HTTP_ALLOWED)


class JwtSettings(SettingsGroup):
    """How callers' tokens are verified: a shared secret (HS256) or an issuer's published keys."""

    secret: Annotated[SecretStr, AfterValidator(_long_secret)] | None = _setting(
        "JWT_SECRET", None, f"at least {MIN_SECRET_BYTES} bytes long, or empty"
    )
    jwks_url: HttpUrl | None = _setting("JWT_JWKS_URL", None, _HTTP_ALLOWED)
    audience: str | None = _setting("JWT_AUDIENCE", None, "at most 1000 characters", max_length=1000)
    issuer: str | None = _setting("JWT_ISSUER", None, "at most 1000 characters", max_length=1000)


class SearchSettings(SettingsGroup):
    """Defaults and limits of a search."""

    default_limit: int = _setting("KB_SEARCH_DEFAULT_LIMIT", 10, "a whole number from 1 to 100", ge=1, le=100)
    max_limit: int = _setting("KB_SEARCH_MAX_LIMIT", 50, "a whole number from 1 to 100", ge=1, le=100)
    semantic_weight: float = _setting("KB_RRF_SEMANTIC_WEIGHT", 0.7, "a number from 0 to 1", ge=0, le=1)
    keyword_weight: float = _setting("KB_RRF_KEYWORD_WEIGHT", 0.3, "a number from 0 to 1", ge=0, le=1)
    similarity_threshold: float | None = _setting(
        "KB_SEMANTIC_SIMILARITY_THRESHOLD", None, "a number from 0 to 1, or empty", ge=0, le=1
    )
    exact_limit: int = _setting(
        "KB_EXACT_SEARCH_LIMIT", 5_000, "a whole number from 0 to 1000000", ge=0, le=1_000_000
    )


class IngestionSettings(SettingsGroup):
    """Uploads, and the worker that turns them into searchable chunks."""

    max_upload_bytes: int = _setting(
        "KB_MAX_UPLOAD_BYTES", 50 * 1024 * 1024, "a whole number from 1 to 1073741824", ge=1, le=1024**3
    )
    worker: bool = _setting("KB_WORKER", True, "on or off")
    concurrency: int = _setting("KB_WORKERS", 2, "a whole number from 1 to 64", ge=1, le=64)
    chunk_overlap: int = _setting("KB_CHUNK_OVERLAP", 0, "a whole number from 0 to 1000", ge=0, le=1000)


def _limit(name: str, default: int, what: str) -> Any:
    return _setting(name, default, f"a whole number of {what}, or 0 for unlimited", ge=0, le=10**15)


class LimitSettings(SettingsGroup):
    """The limits of each tenant, unless the platform sets others for it; 0 means unlimited."""

    requests_per_minute: int = _limit("KB_LIMIT_REQUESTS_PER_MINUTE", 60_000, "requests")
    concurrent_searches: int = _limit("KB_LIMIT_CONCURRENT_SEARCHES", 16, "searches")
    entries: int = _limit("KB_LIMIT_ENTRIES", 10_000_000, "entries")
    bytes: int = _limit("KB_LIMIT_BYTES", 100 * 1024**3, "bytes")
    embedding_tokens_per_day: int = _limit("KB_LIMIT_EMBEDDING_TOKENS_PER_DAY", 1_000_000_000, "tokens")
    crowd: int | None = _setting(
        "KB_LIMIT_CROWD", None, "a whole number from 1 to 500, or empty", ge=1, le=500
    )


class WebhookSettings(SettingsGroup):
    """Webhooks of saved searches, and how long they continue after their owner's last call."""

    allow_private: bool = _setting("KB_WEBHOOK_ALLOW_PRIVATE", False, "on or off")
    rights_days: int = _setting("KB_WEBHOOK_RIGHTS_DAYS", 30, "a whole number from 1 to 3650", ge=1, le=3650)


class ServerSettings(SettingsGroup):
    """Where the service listens."""

    host: Annotated[str, AfterValidator(_host)] = _setting(
        "KB_HOST", "127.0.0.1", "a host name or an address"
    )
    port: Port = _setting("KB_PORT", 8000, "a whole number from 1 to 65535")
    metrics_port: Port | None = _setting("KB_METRICS_PORT", None, "a whole number from 1 to 65535, or empty")
    drain_seconds: float = _setting(
        "KB_DRAIN_SECONDS", 3.0, "a number of seconds from 0 to 300", ge=0, le=300
    )
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(_origins)] | None = _setting(
        "KB_CORS_ORIGINS", None, "origins such as https://app.example.com, separated by commas, or empty"
    )


class LoggingSettings(SettingsGroup):
    """What is logged, and in which form."""

    level: Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)] = (
        _setting("LOG_LEVEL", "info", "debug, info, warning, error or critical")
    )
    format: Annotated[Literal["auto", "json", "plain"], BeforeValidator(_lower)] = _setting(
        "KB_LOG_FORMAT", "auto", "auto, json or plain"
    )


class Settings(BaseSettings):
    """All settings in their groups; `Settings()` has the defaults, `load_settings` reads the environment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database: DatabaseSettings = DatabaseSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    next_embedding: NextEmbeddingSettings = NextEmbeddingSettings()
    jwt: JwtSettings = JwtSettings()
    search: SearchSettings = SearchSettings()
    ingestion: IngestionSettings = IngestionSettings()
    limits: LimitSettings = LimitSettings()
    webhooks: WebhookSettings = WebhookSettings()
    server: ServerSettings = ServerSettings()
    logging: LoggingSettings = LoggingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Names are flat while groups are nested, which the stock sources cannot map; load_settings does.
        return (init_settings,)


def load_settings(
    env: Mapping[str, str] | None = None,
    env_file: str | Path | None = ".env",
    *,
    identity_required: bool = True,
) -> Settings:
    """Read the settings; the environment wins over `env_file`, and an empty value means unset.

    `env` replaces the process environment. `identity_required=False` is for commands that verify no tokens
    (a migration, a worker): they need no JWT setting. Raises ConfigurationError with one line that names each
    wrong variable and what is allowed.
    """
    values = {**_read_env_file(env_file), **(os.environ if env is None else env)}
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


def _read_env_file(env_file: str | Path | None) -> dict[str, str]:
    try:
        source = DotEnvSettingsSource(
            Settings, env_file=env_file, env_file_encoding="utf-8", case_sensitive=True
        )
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(str(env_file), "must be a readable UTF-8 text file") from None
    return {name: value for name, value in source.env_vars.items() if value is not None}


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
    if jwt.secret and jwt.jwks_url:
        raise ConfigurationError("JWT_SECRET and JWT_JWKS_URL", "must not both be set", "keep one of them")
    if identity_required and not (jwt.secret or jwt.jwks_url or settings.database.embedded):
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
