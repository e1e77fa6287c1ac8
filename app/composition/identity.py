"""How callers' tokens are verified, as the settings choose."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import httpx

from app.auth.jwks import JwksCache
from app.auth.secret import ensure_secret
from app.auth.tokens import TokenVerifier
from app.settings import Settings


def shared_secret(settings: Settings) -> str | None:
    """The HS256 secret: the configured one, or the one that the embedded mode makes and keeps; None with JWKS."""
    if settings.jwt.secret is not None:
        return settings.jwt.secret.get_secret_value()
    if settings.jwt.jwks_url is None and settings.database.embedded:
        return ensure_secret(settings.database.data_dir)
    return None


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings) -> AsyncIterator[TokenVerifier]:
    """The verifier of callers' tokens that the settings choose. Raises ConfigurationError."""
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
