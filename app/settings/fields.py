"""Types of settings, and how a setting is declared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

MIN_SECRET_BYTES = 32
"""RFC 7518, section 3.2: an HS256 key is at least as long as the hash."""

_POSTGRES_SCHEMES = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})


def setting(name: str, default: object, allowed: str, **bounds: Any) -> Any:
    """Declare a field read from the variable `name`; `allowed` completes "`name` must be …"."""
    return Field(default=default, validation_alias=name, description=allowed, **bounds)


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


_SCOPE = re.compile(r"[!#-\[\]-~]{1,200}", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
MAX_NAMED_SECRETS = 2
_ENCRYPTION_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


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


def check_secrets(secrets: SecretStr) -> SecretStr:
    parse_secrets(secrets)
    return secrets


def parse_encryption_keys(keys: SecretStr) -> tuple[bytes, ...]:
    """The keys in their order, each as the 44 characters of 32 bytes in URL-safe base64. Raises ValueError."""
    found = [part.strip().rstrip("=") for part in keys.get_secret_value().split(",")]
    if not all(map(_ENCRYPTION_KEY.fullmatch, found)):
        raise ValueError("not a list of keys")
    return tuple(f"{key}=".encode() for key in found)


def check_encryption_keys(keys: SecretStr) -> SecretStr:
    parse_encryption_keys(keys)
    return keys


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


_URL_FORM = "postgresql://user:password@host:port/database"
POSTGRES_ALLOWED = f"of the form {_URL_FORM} (special characters percent-encoded), or empty"
HTTP_ALLOWED = "an http:// or https:// address without user name and password, or empty"
CLAIM_ALLOWED = "the name of a claim, or a path such as realm_access.roles, of at most 200 characters"
