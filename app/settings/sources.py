"""The rule that a key goes only to an address from the same source."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from app.errors import ConfigurationError
from app.settings.fields import split_addresses

_DRIVER_SECRETS = ("PGPASSWORD", "PGPASSFILE", "PGSSLKEY")
"""Variables with which the Postgres driver completes an address that has no password or key."""


def check_sources(file: Mapping[str, str], environment: Mapping[str, str]) -> None:
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
