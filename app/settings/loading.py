"""Load the settings from the environment and from a file, which another person may have written."""

import io
import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource

from app.errors import ConfigurationError
from app.settings.groups import Settings, SettingsGroup, split_addresses

MAX_FILE_BYTES = 256 * 1024

_WEIGHT_TOLERANCE = 1e-9
_DRIVER_SECRETS = ("PGPASSWORD", "PGPASSFILE", "PGSSLKEY")
"""Variables with which the Postgres driver completes an address that has no password or key."""
_GROUPS: Mapping[str, type[SettingsGroup]] = {
    name: group
    for name, field in Settings.model_fields.items()
    if isinstance(group := field.annotation, type) and issubclass(group, SettingsGroup)
}
_ALLOWED = {
    str(field.validation_alias): field.description
    for group in _GROUPS.values()
    for field in group.model_fields.values()
}
"""The allowed values, by the name of each variable."""

# With PYDANTIC_SETTINGS_DEBUG it logs every value that it reads, keys among them.
logging.getLogger("pydantic_settings").setLevel(logging.INFO)


class _Variables(EnvSettingsSource):
    """Variables of the environment or of a file as a source of a group.

    The library's own source of files would read any file, and expand `${NAME}`.
    """

    def __init__(self, group: type[BaseSettings], variables: Mapping[str, str]) -> None:
        super().__init__(group)
        self.env_vars = variables


def load_settings(
    env: Mapping[str, str] | None = None, env_file: str | Path | None = None, *, identity_required: bool = True
) -> Settings:
    """Read the settings; the environment wins over `env_file`, and an empty value means unset.

    `env` replaces the process environment. `identity_required=False` is for commands that verify no tokens
    (a migration, a worker): they need no JWT setting. Raises ConfigurationError with one line that names each
    wrong variable and what is allowed, and for a key and its address from different sources.
    """
    environment = os.environ if env is None else env
    file: Mapping[str, str] = {}
    if env_file is not None:
        with suppress(FileNotFoundError):
            file = read_env_file(Path(env_file))
    _check_sources(file, environment)
    groups: dict[str, BaseSettings] = {}
    wrong: dict[str, None] = {}
    for name, group in _GROUPS.items():
        try:
            groups[name] = _read_group(group, environment, file)
        except ValidationError as error:
            wrong |= dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
    if wrong:
        raise _refuse(*wrong)
    settings = Settings.model_validate(groups)
    _check_consistency(settings, identity_required=identity_required)
    return settings


def variable_names() -> tuple[str, ...]:
    """The names of all environment variables that are read, in the order of the groups."""
    return tuple(_ALLOWED)


def _read_group(group: type[BaseSettings], *origins: Mapping[str, str]) -> BaseSettings:
    """A group with the variables of several origins, of which the first that has a variable wins."""
    names = [str(field.validation_alias) for field in group.model_fields.values()]
    # A source also reads variables with the names of fields, such as `host`, so it gets only the group's own.
    given = [{name: origin[name] for name in names if name in origin} for origin in origins]
    # Each source takes 0.2 ms, so a group without variables has none.
    sources = tuple(_Variables(group, variables) for variables in given if variables)
    return group(_build_sources=(sources, {}))


def _refuse(*names: str) -> ConfigurationError:
    """Name every invalid variable, but no value, because a value may be or contain a secret."""
    wrong = [ConfigurationError(name, f"must be {_ALLOWED[name]}") for name in names]
    return wrong[0] if len(wrong) == 1 else ConfigurationError(None, "; ".join(map(str, wrong)))


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file, as written: `${NAME}` stands for itself.

    Raises FileNotFoundError; ConfigurationError for a file that another user owns or can change, and for one that is
    not readable UTF-8 text.
    """
    try:
        data = _read_own_file(path)
    except FileNotFoundError:
        raise
    except OSError:
        raise _unreadable(path) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(str(path), f"must have at most {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable(path) from None
    # Interpolation would write variables of the environment, keys among them, into any setting.
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def _read_own_file(path: Path) -> bytes:
    # O_NONBLOCK: a FIFO with this name must not hang the start.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        # The opened file is checked, not the name, which may stand for another file a moment later.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path)
        if status.st_uid not in (os.geteuid(), 0):
            raise ConfigurationError(
                str(path), "is owned by another user, who could redirect keys", "own the file, or remove it"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigurationError(
                str(path), "can be changed by other users, who could redirect keys", f"run: chmod go-w {path}"
            )
        return file.read(MAX_FILE_BYTES + 1)


def _unreadable(path: Path) -> ConfigurationError:
    return ConfigurationError(str(path), "must be a readable UTF-8 text file")


def _check_sources(file: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a key from the environment would go to an address from the file, or the reverse."""
    values = {**file, **environment}
    sources = {
        name: "the environment" if name in environment else "the file"
        for name, value in values.items()
        if value.strip()
    }
    for key, address in _used_pairs(values, sources):
        if key in sources and address in sources and sources[key] != sources[address]:
            raise ConfigurationError(
                f"{key} and {address}",
                f"must come from one source, but {sources[key]} sets the key and {sources[address]} the address",
                "set both in the environment or both in the file",
            )


def _used_pairs(values: Mapping[str, str], sources: Mapping[str, str]) -> list[tuple[str, str]]:
    """The names of the key and the address of each provider and database that the service connects to."""
    pairs = []
    first = values.get("EMBEDDING_PROVIDER", "").strip().upper()
    following = values.get("EMBEDDING_NEXT_PROVIDER", "").strip().upper()
    for provider in ("OPENAI", "GEMINI"):
        address = f"{provider}_BASE_URL"
        if provider in (first, following):
            pairs.append((f"{provider}_API_KEY", address))
        if provider == following:
            own = "EMBEDDING_NEXT_BASE_URL"
            pairs.append(("EMBEDDING_NEXT_API_KEY", own if own in sources else address))
    pairs.append(("KB_RERANKER_API_KEY", "KB_RERANKER_URL"))
    pairs.append(("KB_OIDC_CLIENT_SECRET", "KB_OIDC_ISSUER"))
    for address in ("DATABASE_URL", "DATABASE_ADMIN_URL", "DATABASE_DIRECT_URL"):
        if sources.get(address) == "the file":
            pairs += [(name, address) for name in _missing_secrets(values[address])]
    if sources.get(replicas := "DATABASE_REPLICA_URLS") == "the file":
        missing = {name for url in split_addresses(values[replicas]) for name in _missing_secrets(url)}
        pairs += [(name, replicas) for name in sorted(missing)]
    return pairs


def _missing_secrets(address: str) -> tuple[str, ...]:
    parts = urlsplit(address.strip())
    given = parts.password or "password" in parse_qs(parts.query)
    return _DRIVER_SECRETS[2:] if given else _DRIVER_SECRETS


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
    reranker, database = settings.reranker, settings.database
    if reranker.url is None and not reranker.is_local:
        _refuse_unused("KB_RERANKER_URL", KB_RERANKER_MODEL=reranker.model, KB_RERANKER_API_KEY=reranker.api_key)
    if database.embedded:
        _refuse_unused(
            "DATABASE_URL", DATABASE_DIRECT_URL=database.direct_url, DATABASE_REPLICA_URLS=database.replica_urls
        )
    for name, secret in (("JWT_SECRET", jwt.secret), ("JWT_SECRETS", jwt.secrets)):
        if secret and jwt.jwks_url:
            raise ConfigurationError(f"{name} and JWT_JWKS_URL", "must not both be set", "keep one of them")
    if not jwt.mcp_issuer:
        _refuse_unused("KB_MCP_ISSUER", KB_MCP_SCOPES=jwt.mcp_scopes)
    if jwt.mcp_issuer and not server.public_url:
        raise ConfigurationError("KB_PUBLIC_URL", "must be set with KB_MCP_ISSUER")
    if jwt.mcp_issuer and jwt.issuer not in (None, jwt.mcp_issuer):
        raise ConfigurationError("KB_MCP_ISSUER", "must be the same as JWT_ISSUER, whose keys verify its tokens")
    if identity_required:
        _check_sign_in(settings)
    if identity_required and not (jwt.secret or jwt.secrets or jwt.jwks_url or settings.database.embedded):
        raise ConfigurationError("JWT_SECRET or JWT_JWKS_URL", "one must be set when DATABASE_URL is set")


def _refuse_unused(needed: str, **given: object) -> None:
    """Refuse variables that are set although the variable that they belong to is not."""
    for name, value in given.items():
        if value:
            raise ConfigurationError(name, f"has no effect without {needed}")


def _check_next_model(settings: Settings) -> None:
    following, embedding = settings.next_embedding, settings.embedding
    if following.provider is None:
        _refuse_unused(
            "EMBEDDING_NEXT_PROVIDER",
            EMBEDDING_NEXT_MODEL=following.model,
            EMBEDDING_NEXT_DIMENSIONS=following.dimensions,
            EMBEDDING_NEXT_API_KEY=following.api_key,
            EMBEDDING_NEXT_BASE_URL=following.base_url,
        )
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
        _refuse_unused(
            "KB_OIDC_ISSUER",
            KB_OIDC_CLIENT_ID=oidc.client_id,
            KB_OIDC_CLIENT_SECRET=oidc.client_secret,
            KB_OIDC_ORIGINS=oidc.origins,
        )
        return
    for name, needed in (("KB_OIDC_CLIENT_ID", oidc.client_id), ("KB_PUBLIC_URL", settings.server.public_url)):
        if not needed:
            raise ConfigurationError(name, "must be set with KB_OIDC_ISSUER")
    if settings.encryption.keys is None and not settings.database.embedded:
        raise ConfigurationError(
            "KB_ENCRYPTION_KEY", "must be set with KB_OIDC_ISSUER: sessions are signed with a key derived from it"
        )
