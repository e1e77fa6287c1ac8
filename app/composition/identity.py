"""The verification of callers' tokens, from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import httpx

from app.auth.jwks import JwksCache
from app.auth.tokens import TokenVerifier
from app.composition.shared_secrets import SharedSecrets, shared_secrets
from app.settings import Settings


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings) -> AsyncIterator[TokenVerifier]:
    """Open the verifier of callers' tokens. Raises ConfigurationError."""
    jwt = settings.jwt
    if jwt.jwks_url is None:
        secrets = shared_secrets(settings) or SharedSecrets(None, {})
        yield TokenVerifier(
            secret=secrets.unnamed, named=secrets.named, audience=jwt.audience, issuer=jwt.issuer
        )
        return
    async with httpx.AsyncClient(trust_env=False) as client:
        keys = JwksCache(jwt.jwks_url, client)
        try:
            yield TokenVerifier(keys=keys, audience=jwt.audience, issuer=jwt.issuer)
        finally:
            await keys.close()
