"""The verification of callers' tokens, from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from app.auth.jwks import JwksCache
from app.auth.tokens import MIN_SECRET_BYTES, TokenVerifier
from app.embedded import read_or_create_secret
from app.errors import ConfigurationError
from app.settings import Settings

SECRET_FILE = "jwt-secret"  # noqa: S105  # a file name
SECRET_SIZE = 48


def shared_secret(settings: Settings) -> str | None:
    """The HS256 secret: the configured one, or the one that the embedded mode generates and stores; None with JWKS."""
    if settings.jwt.secret is not None:
        return settings.jwt.secret.get_secret_value()
    if settings.jwt.jwks_url is None and settings.database.embedded:
        return ensure_secret(settings.database.data_dir)
    return None


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings) -> AsyncIterator[TokenVerifier]:
    """Open the verifier of callers' tokens. Raises ConfigurationError."""
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


def ensure_secret(data_dir: Path) -> str:
    """Return the secret in `data_dir`, generated at the first call; simultaneous processes get the same one.

    Raises ConfigurationError when the secret cannot be created or read, or is not usable.
    """
    path = data_dir / SECRET_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        secret = read_or_create_secret(path, SECRET_SIZE)
    except OSError as error:
        raise ConfigurationError(
            "KB_DATA_DIR", f"the token secret {path} cannot be created or read: {error.strerror}"
        ) from None
    except ValueError:
        secret = ""
    if len(secret) < MIN_SECRET_BYTES or not secret.isascii():
        raise ConfigurationError(
            "KB_DATA_DIR",
            f"{path} contains no usable secret",
            "remove it; the next start generates a new one",
        )
    return secret
