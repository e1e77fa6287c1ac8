"""All settings, in groups, and the types of their values."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

MIN_SECRET_BYTES = 32
"""RFC 7518, section 3.2: an HS256 key is at least as long as the hash."""

_POSTGRES_SCHEMES = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})
_SCOPE = re.compile(r"[!#-\[\]-~]{1,200}", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
MAX_NAMED_SECRETS = 2
_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_ENCRYPTION_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def setting(name: str, default: object, allowed: str, **bounds: Any) -> Any:
    """Declare a field read from the variable `name`; `allowed` completes "`name` must be …"."""
    return Field(default=default, validation_alias=name, description=allowed, **bounds)


NUMBER, SECONDS = "a number", "a number of seconds"


def between(name: str, default: float | None, least: float, most: float, what: str = "an integer") -> Any:
    """Declare a number with its bounds; without a default, it may be empty."""
    empty = ", or empty" if default is None else ""
    return setting(name, default, f"{what} from {least} to {most}{empty}", ge=least, le=most)


def _postgres_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    scheme, separator, rest = text.partition("://")
    parts = urlsplit(f"postgresql://{rest}")
    # An address may list several hosts. `port` raises ValueError unless it is a number up to 65535.
    hosts = [urlsplit(f"//{host}") for host in parts.netloc.rpartition("@")[2].split(",")]
    _ = [host.port for host in hosts]
    socket_host = "host=" in parts.query
    named = len(parts.path) > 1 and (all(host.hostname for host in hosts) or socket_host)
    if not separator or scheme not in _POSTGRES_SCHEMES or not named or any(c.isspace() for c in text):
        raise ValueError("not a Postgres address")
    return SecretStr(f"postgresql://{rest}")


def split_addresses(text: str) -> list[str]:
    """The addresses of a list separated by commas or spaces; an address of several hosts has commas of its own."""
    return [part for part in re.split(r"[,\s]+(?=postgres)", text.strip()) if part]


def _postgres_urls(text: object) -> object:
    return split_addresses(text) if isinstance(text, str) else text


def _http_url(url: str) -> str:
    parts = urlsplit(url)
    _ = parts.port
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError("not an HTTP address")
    if any(c.isspace() for c in url):
        raise ValueError("not an HTTP address")
    return url


def check_host(host: str) -> str:
    if any(c.isspace() or c in "/@?#" for c in host):
        raise ValueError("not a host")
    return host


def check_origin(origin: str) -> str:
    parts = urlsplit(origin)
    _ = parts.port
    if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
        raise ValueError("not a web origin")
    if not parts.hostname or parts.username or origin != origin.lower():
        raise ValueError("not a web origin")
    return origin


def check_origins(text: object) -> object:
    """A list of web origins, as browsers send them: scheme, host, and a port that is not the scheme's own."""
    origins = [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else text
    for origin in origins if isinstance(origins, list | tuple) else ():
        check_origin(origin)
    return origins


def check_scopes(scopes: str) -> str:
    """Scopes of RFC 6749, section 3.3."""
    names = scopes.split()
    if not all(map(_SCOPE.fullmatch, names)):
        raise ValueError("not scopes")
    return " ".join(names)


def check_openid_scopes(scopes: str) -> str:
    """Scopes of OpenID Connect."""
    if "openid" not in scopes.split():
        raise ValueError("not scopes of OpenID Connect")
    return check_scopes(scopes)


def check_secret(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode("utf-8", "surrogateescape")) < MIN_SECRET_BYTES:
        raise ValueError("too short")
    return secret


def parse_secrets(secrets: SecretStr) -> dict[str, str]:
    """The secrets by their key id, in their order. Raises ValueError."""
    pairs = [part.strip().partition(":") for part in secrets.get_secret_value().split(",")]
    found = {kid: secret for kid, _, secret in pairs}
    if not len(found) == len(pairs) <= MAX_NAMED_SECRETS or not all(map(_KEY_ID.fullmatch, found)):
        raise ValueError("not a list of secrets")
    for secret in found.values():
        check_secret(SecretStr(secret))
    if len(set(found.values())) != len(found):
        raise ValueError("a secret is repeated")
    return found


def parse_encryption_keys(keys: SecretStr) -> tuple[bytes, ...]:
    """The keys in their order, each as the 44 characters of 32 bytes in URL-safe base64. Raises ValueError."""
    found = [part.strip().rstrip("=") for part in keys.get_secret_value().split(",")]
    if not all(map(_ENCRYPTION_KEY.fullmatch, found)):
        raise ValueError("not a list of keys")
    return tuple(f"{key}=".encode() for key in found)


def parse_ports(ports: str) -> tuple[range, ...]:
    """The ports of a list of numbers and of ranges such as 8080-8443. Raises ValueError."""
    parts = [_PORTS.fullmatch(part.strip()) for part in ports.split(",")]
    found = tuple(range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part)
    if len(found) != len(parts) or not all(1 <= ports.start < ports.stop <= 65536 for ports in found):
        raise ValueError("not a list of ports")
    return found


def _parsed_by(parse: Callable[[Any], object]) -> AfterValidator:
    """The value as it is, if it can be parsed."""
    return AfterValidator(lambda text: (parse(text), text)[1])


def _folder(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("no such user's home") from error


def lower_text(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


PostgresUrl = Annotated[SecretStr, AfterValidator(_postgres_url)]
PostgresUrls = Annotated[tuple[PostgresUrl, ...], BeforeValidator(_postgres_urls)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
Folder = Annotated[Path, AfterValidator(_folder)]
"""A folder's path; `~` and `~user` stand for a home, as in a shell, which does not expand them in a `.env` file."""
Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[str, AfterValidator(check_host)]
ProviderKind = Annotated[Literal["local", "openai", "gemini", "fastembed", "mock"], BeforeValidator(lower_text)]

_URL_FORM = "postgresql://user:password@host:port/database"
POSTGRES_ALLOWED = f"of the form {_URL_FORM} (special characters percent-encoded), or empty"
HTTP_ALLOWED = "an http:// or https:// address without user name and password, or empty"
CLAIM_ALLOWED = "the name of a claim, or a path such as realm_access.roles, of at most 200 characters"


class SettingsGroup(BaseSettings):
    """A group of settings; immutable, and its text never shows a secret."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
        case_sensitive=True,
        enable_decoding=False,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """A group that Python code creates has the given values only; `load_settings` reads the other sources."""
        return (init_settings,)

    @model_validator(mode="before")
    @classmethod
    def _remove_blanks(cls, values: object) -> object:
        """A blank value means unset, also where it replaces a value of another source."""
        if not isinstance(values, dict):
            return values
        stripped = {name: v.strip() if isinstance(v, str) else v for name, v in values.items()}
        return {name: value for name, value in stripped.items() if value != ""}


FOLDER_ALLOWED = "the path of a folder; ~ is a home that exists"


class DatabaseSettings(SettingsGroup):
    """The address and use of Postgres; URLs are normalised to the scheme `postgresql://`."""

    url: PostgresUrl | None = setting("DATABASE_URL", None, POSTGRES_ALLOWED)
    admin_url: PostgresUrl | None = setting("DATABASE_ADMIN_URL", None, POSTGRES_ALLOWED)
    direct_url: PostgresUrl | None = setting("DATABASE_DIRECT_URL", None, POSTGRES_ALLOWED)
    replica_urls: PostgresUrls = setting(
        "DATABASE_REPLICA_URLS", (), "addresses like DATABASE_URL, separated by commas, or empty"
    )
    replica_staleness: float = between("KB_REPLICA_STALENESS", 5.0, 0.5, 3600, SECONDS)
    data_dir: Folder = setting("KB_DATA_DIR", Path(".data"), FOLDER_ALLOWED)
    prepared_statements: bool = setting("DATABASE_PREPARED_STATEMENTS", True, "on or off")
    pool_size: int = between("KB_DATABASE_POOL_SIZE", 10, 1, 500)
    timeout: float = between("KB_DATABASE_TIMEOUT", 5.0, 0.1, 600, SECONDS)
    statement_timeout: float = between("KB_DATABASE_STATEMENT_TIMEOUT", 30.0, 0.1, 3600, SECONDS)

    @property
    def embedded(self) -> bool:
        """Whether the service starts its own Postgres under `data_dir`."""
        return self.url is None


class EmbeddingSettings(SettingsGroup):
    """The embedding provider; None means the provider's default."""

    provider: ProviderKind = setting("EMBEDDING_PROVIDER", "local", "local, openai, gemini, fastembed or mock")
    model: str | None = setting("EMBEDDING_MODEL", None, "the name of a model of the provider", max_length=200)
    dimensions: int | None = between("EMBEDDING_DIMENSIONS", None, 1, 4000)
    model_folder: Folder = setting("KB_MODEL_FOLDER", Path(".data/models"), FOLDER_ALLOWED)
    query_timeout: float = between("KB_EMBEDDING_QUERY_TIMEOUT", 3.0, 0.1, 60, SECONDS)
    openai_api_key: SecretStr | None = setting("OPENAI_API_KEY", None, "a key, or empty")
    openai_base_url: HttpUrl | None = setting("OPENAI_BASE_URL", None, HTTP_ALLOWED)
    gemini_api_key: SecretStr | None = setting("GEMINI_API_KEY", None, "a key, or empty")
    gemini_base_url: HttpUrl | None = setting("GEMINI_BASE_URL", None, HTTP_ALLOWED)


class NextEmbeddingSettings(SettingsGroup):
    """The second model, while tenants move from one to the other; without a provider, there is none."""

    provider: ProviderKind | None = setting(
        "EMBEDDING_NEXT_PROVIDER", None, "local, openai, gemini, fastembed, mock, or empty"
    )
    model: str | None = setting(
        "EMBEDDING_NEXT_MODEL", None, "the name of a model of EMBEDDING_NEXT_PROVIDER", max_length=200
    )
    dimensions: int | None = between("EMBEDDING_NEXT_DIMENSIONS", None, 1, 4000)
    api_key: SecretStr | None = setting("EMBEDDING_NEXT_API_KEY", None, "a key, or empty")
    base_url: HttpUrl | None = setting("EMBEDDING_NEXT_BASE_URL", None, HTTP_ALLOWED)


class JwtSettings(SettingsGroup):
    """How callers' tokens are verified: a shared secret (HS256) or an issuer's published keys."""

    secret: Annotated[SecretStr, AfterValidator(check_secret)] | None = setting(
        "JWT_SECRET", None, f"at least {MIN_SECRET_BYTES} bytes long, or empty"
    )
    secrets: Annotated[SecretStr, _parsed_by(parse_secrets)] | None = setting(
        "JWT_SECRETS",
        None,
        f"one or two of the form ID:SECRET, separated by a comma, with different ids and secrets of at least "
        f"{MIN_SECRET_BYTES} bytes, or empty",
    )
    jwks_url: HttpUrl | None = setting("JWT_JWKS_URL", None, HTTP_ALLOWED)
    audience: str | None = setting("JWT_AUDIENCE", None, "at most 1000 characters", max_length=1000)
    issuer: str | None = setting("JWT_ISSUER", None, "at most 1000 characters", max_length=1000)
    groups_claim: str = setting("JWT_GROUPS_CLAIM", "groups", "1 to 200 characters", min_length=1, max_length=200)
    mcp_issuer: HttpUrl | None = setting("KB_MCP_ISSUER", None, HTTP_ALLOWED)
    mcp_scopes: Annotated[str, AfterValidator(check_scopes)] | None = setting(
        "KB_MCP_SCOPES", None, "names separated by spaces, or empty"
    )


class OidcSettings(SettingsGroup):
    """The provider of OpenID Connect at which people sign in to the console; without an issuer, there is none."""

    issuer: HttpUrl | None = setting("KB_OIDC_ISSUER", None, HTTP_ALLOWED)
    client_id: str | None = setting("KB_OIDC_CLIENT_ID", None, "at most 1000 characters", max_length=1000)
    client_secret: SecretStr | None = setting("KB_OIDC_CLIENT_SECRET", None, "a secret, or empty")
    name: str = setting("KB_OIDC_NAME", "single sign-on", "at most 60 characters", max_length=60)
    scopes: Annotated[str, AfterValidator(check_openid_scopes)] = setting(
        "KB_OIDC_SCOPES", "openid", "names separated by spaces, of which one is openid"
    )
    tenant_claim: str = setting("KB_OIDC_TENANT_CLAIM", "tenant_id", CLAIM_ALLOWED, max_length=200)
    roles_claim: str = setting("KB_OIDC_ROLES_CLAIM", "roles", CLAIM_ALLOWED, max_length=200)
    session_hours: float = between("KB_OIDC_SESSION_HOURS", 8.0, 0.1, 168, "a number of hours")
    origins: Annotated[tuple[str, ...], BeforeValidator(check_origins)] = setting(
        "KB_OIDC_ORIGINS", (), "origins such as https://login.example.com, separated by commas, or empty"
    )


class SearchSettings(SettingsGroup):
    """Defaults and limits of a search."""

    default_limit: int = between("KB_SEARCH_DEFAULT_LIMIT", 10, 1, 100)
    max_limit: int = between("KB_SEARCH_MAX_LIMIT", 50, 1, 100)
    semantic_weight: float = between("KB_RRF_SEMANTIC_WEIGHT", 0.7, 0, 1, NUMBER)
    keyword_weight: float = between("KB_RRF_KEYWORD_WEIGHT", 0.3, 0, 1, NUMBER)
    similarity_threshold: float | None = between("KB_SEMANTIC_SIMILARITY_THRESHOLD", None, 0, 1, NUMBER)
    exact_limit: int = between("KB_EXACT_SEARCH_LIMIT", 5_000, 0, 1_000_000)


class RerankerSettings(SettingsGroup):
    """What reorders the first candidates of searches: a server, or a model of fastembed; else there is none."""

    url: HttpUrl | None = setting("KB_RERANKER_URL", None, HTTP_ALLOWED)
    api: Annotated[Literal["cohere", "jina", "vllm", "tei", "fastembed"], BeforeValidator(lower_text)] = setting(
        "KB_RERANKER_API", "cohere", "cohere, jina, vllm, tei or fastembed"
    )
    model: str | None = setting("KB_RERANKER_MODEL", None, "the name of a model of the server", max_length=200)
    api_key: SecretStr | None = setting("KB_RERANKER_API_KEY", None, "a key, or empty")
    candidates: int = between("KB_RERANKER_CANDIDATES", 50, 2, 200)
    timeout: float = between("KB_RERANKER_TIMEOUT", 2.0, 0.1, 60, SECONDS)

    @property
    def is_local(self) -> bool:
        """Whether it is a model in this process."""
        return self.api == "fastembed"


class IngestionSettings(SettingsGroup):
    """Uploads, and the worker that turns them into searchable chunks."""

    max_upload_bytes: int = between("KB_MAX_UPLOAD_BYTES", 50 * 1024 * 1024, 1, 1024**3)
    worker: bool = setting("KB_WORKER", True, "on or off")
    files_at_once: int = between("KB_FILES_AT_ONCE", 2, 1, 64)
    ocr_seconds: float = between("KB_OCR_SECONDS", 300.0, 1, 3600, SECONDS)
    chunk_overlap: int = between("KB_CHUNK_OVERLAP", 0, 0, 1000)
    source_max_deletions: float = setting(
        "KB_SOURCE_MAX_DELETIONS", 0.2, "a number from 0 to 1", ge=0, le=1, allow_inf_nan=False
    )


def _limit(name: str, default: int, what: str) -> Any:
    return setting(name, default, f"an integer of {what}, or 0 for unlimited", ge=0, le=10**15)


class LimitSettings(SettingsGroup):
    """The limits of each tenant, unless the platform sets others for it; 0 means unlimited."""

    requests_per_minute: int = _limit("KB_LIMIT_REQUESTS_PER_MINUTE", 60_000, "requests")
    concurrent_searches: int = _limit("KB_LIMIT_CONCURRENT_SEARCHES", 16, "searches")
    entries: int = _limit("KB_LIMIT_ENTRIES", 10_000_000, "entries")
    bytes: int = _limit("KB_LIMIT_BYTES", 100 * 1024**3, "bytes")
    receipts: int = _limit("KB_LIMIT_RECEIPTS", 1_000_000, "receipts")
    embedding_tokens_per_day: int = _limit("KB_LIMIT_EMBEDDING_TOKENS_PER_DAY", 1_000_000_000, "tokens")
    crowd: int | None = between("KB_LIMIT_CROWD", None, 1, 500)


class RecordSettings(SettingsGroup):
    """Records that the service keeps of what happened."""

    audit_rows: int = setting("KB_AUDIT_ROWS", 2_000_000, "an integer of rows, or 0 for unlimited", ge=0, le=10**12)


class WebhookSettings(SettingsGroup):
    """Webhooks of saved searches: their targets and pace, and how long they continue after their owner's last call."""

    allow_private: bool = setting("KB_WEBHOOK_ALLOW_PRIVATE", False, "on or off")
    ports: Annotated[str, _parsed_by(parse_ports)] = setting(
        "KB_WEBHOOK_PORTS", "80, 443, 8080-8443", "ports and ranges such as 8080-8443, separated by commas"
    )
    rights_days: int = between("KB_WEBHOOK_RIGHTS_DAYS", 7, 1, 3650)
    host_per_minute: int = between("KB_WEBHOOK_HOST_PER_MINUTE", 600, 10, 1_000_000)


class ServerSettings(SettingsGroup):
    """Where the service listens."""

    host: Host = setting("KB_HOST", "127.0.0.1", "a host name or an address")
    port: Port = setting("KB_PORT", 8000, "an integer from 1 to 65535")
    workers: int | None = between("KB_WORKERS", None, 1, 32)
    metrics_port: Port | None = setting("KB_METRICS_PORT", None, "an integer from 1 to 65535, or empty")
    metrics_host: Host = setting("KB_METRICS_HOST", "127.0.0.1", "a host name or an address")
    connections_per_address: int = setting(
        "KB_CONNECTIONS_PER_ADDRESS", 1_000, "an integer from 0 to 65536; 0 means unlimited", ge=0, le=65_536
    )
    drain_seconds: float = between("KB_DRAIN_SECONDS", 3.0, 0, 300, SECONDS)
    mcp_tools: Annotated[Literal["core", "all", "assistants"], BeforeValidator(lower_text)] = setting(
        "KB_MCP_TOOLS", "core", "core, all or assistants"
    )
    public_url: Annotated[str, AfterValidator(check_origin)] | None = setting(
        "KB_PUBLIC_URL", None, "an origin such as https://kb.example.com, or empty"
    )
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(check_origins)] | None = setting(
        "KB_CORS_ORIGINS", None, "origins such as https://app.example.com, separated by commas, or empty"
    )


class EncryptionSettings(SettingsGroup):
    """Keys that encrypt secrets in the database."""

    keys: Annotated[SecretStr, _parsed_by(parse_encryption_keys)] | None = setting(
        "KB_ENCRYPTION_KEY", None, "one or more keys of 32 bytes in URL-safe base64, separated by commas, or empty"
    )


class LoggingSettings(SettingsGroup):
    """The level and the form of the log."""

    level: Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(lower_text)] = setting(
        "LOG_LEVEL", "info", "debug, info, warning, error or critical"
    )
    format: Annotated[Literal["auto", "json", "plain"], BeforeValidator(lower_text)] = setting(
        "KB_LOG_FORMAT", "auto", "auto, json or plain"
    )


class Settings(BaseModel):
    """All settings in their groups; `Settings()` has the defaults, `load_settings` reads the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    database: DatabaseSettings = DatabaseSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    next_embedding: NextEmbeddingSettings = NextEmbeddingSettings()
    jwt: JwtSettings = JwtSettings()
    oidc: OidcSettings = OidcSettings()
    search: SearchSettings = SearchSettings()
    reranker: RerankerSettings = RerankerSettings()
    ingestion: IngestionSettings = IngestionSettings()
    limits: LimitSettings = LimitSettings()
    records: RecordSettings = RecordSettings()
    webhooks: WebhookSettings = WebhookSettings()
    server: ServerSettings = ServerSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    logging: LoggingSettings = LoggingSettings()
