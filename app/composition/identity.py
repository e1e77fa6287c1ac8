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
    async with _open(settings, settings.jwt.audience, settings.jwt.issuer) as verifier:
        yield verifier


@contextlib.asynccontextmanager
async def open_resource_verifier(settings: Settings, resource: str) -> AsyncIterator[TokenVerifier]:
    """Open the verifier of tokens that the issuer of KB_MCP_ISSUER gives for `resource`. Raises ConfigurationError."""
    async with _open(settings, resource, settings.jwt.mcp_issuer) as verifier:
        yield verifier


@contextlib.asynccontextmanager
async def _open(settings: Settings, audience: str | None, issuer: str | None) -> AsyncIterator[TokenVerifier]:
    jwt = settings.jwt
    if jwt.jwks_url is None:
        secrets = shared_secrets(settings) or SharedSecrets(None, {})
        yield TokenVerifier(
            secret=secrets.unnamed,
            named=secrets.named,
            audience=audience,
            issuer=issuer,
            groups_claim=jwt.groups_claim,
        )
        return
    async with httpx.AsyncClient(trust_env=False) as client:
        keys = JwksCache(jwt.jwks_url, client)
        try:
            yield TokenVerifier(keys=keys, audience=audience, issuer=issuer, groups_claim=jwt.groups_claim)
        finally:
            await keys.close()
