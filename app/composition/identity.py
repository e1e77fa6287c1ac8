"""Build token verification and sign-in from the settings, with their secrets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx
from pydantic import SecretStr

from app.auth.jwks import JwksCache
from app.auth.tokens import TokenVerifier
from app.composition.shared_secrets import SharedSecrets, shared_secrets
from app.embedded.data_folder import read_or_create_secret
from app.errors import ConfigurationError
from app.settings import Settings
from app.settings.groups import parse_encryption_keys

if TYPE_CHECKING:
    from app.auth.sign_in import ProviderSignIn

KEY_FILE = "encryption-key"


def encryption_keys(settings: Settings) -> tuple[bytes, ...]:
    """The configured keys, or the key that the embedded mode generates and stores; otherwise none.

    Raises ConfigurationError.
    """
    if settings.encryption.keys is not None:
        return parse_encryption_keys(settings.encryption.keys)
    if not settings.database.embedded:
        return ()
    path = settings.database.data_dir / KEY_FILE
    try:
        return parse_encryption_keys(SecretStr(read_or_create_secret(path)))
    except OSError as error:
        raise ConfigurationError(
            "KB_DATA_DIR", f"the encryption key {path} cannot be created or read: {error.strerror}"
        ) from None
    except ValueError:
        raise ConfigurationError("KB_DATA_DIR", f"{path} contains no usable key", "restore it from a backup") from None


CALLBACK = "/console/sign-in/callback"
"""Where the provider sends browsers back to, under KB_PUBLIC_URL."""


@contextlib.asynccontextmanager
async def open_sign_in(settings: Settings) -> AsyncIterator[ProviderSignIn | None]:
    """Open the sign-in; None without KB_OIDC_ISSUER. Nothing is fetched yet. Raises ConfigurationError."""
    oidc, home = settings.oidc, settings.server.public_url
    if oidc.issuer is None or oidc.client_id is None or home is None:
        yield None
        return
    # Imported here: a service without a provider does not need it.
    import httpx2

    from app.auth.openid import Provider
    from app.auth.sign_in import (
        Attempts,
        BoundedTransport,
        ClaimNames,
        CodeFlow,
        Identities,
        ProviderSignIn,
        Registration,
        Sessions,
        derive_key,
    )

    issuer, client_id = oidc.issuer, oidc.client_id
    roots = encryption_keys(settings)

    def derive(purpose: str) -> list[bytes]:
        return [derive_key(root, purpose, issuer, client_id) for root in roots]

    secret = oidc.client_secret.get_secret_value() if oidc.client_secret else None
    registration = Registration(client_id, secret, oidc.scopes, f"{home}{CALLBACK}")
    sessions = Sessions(derive("session"), service=f"{home}/console", seconds=round(3600 * oidc.session_hours))
    async with httpx.AsyncClient(trust_env=False) as client, httpx2.AsyncHTTPTransport(trust_env=False) as connections:
        provider = Provider(issuer, client, origins=oidc.origins)
        flow = CodeFlow(registration, BoundedTransport(connections, provider.origins))
        verifier = TokenVerifier(keys=provider, audience=client_id, issuer=issuer)
        identities = Identities(
            verifier, client_id, ClaimNames(oidc.tenant_claim, oidc.roles_claim, settings.jwt.groups_claim)
        )
        attempts = Attempts(derive("attempt"))
        try:
            yield ProviderSignIn(provider, flow, identities, attempts, sessions, name=oidc.name, home=home)
        finally:
            await provider.close()


@contextlib.asynccontextmanager
async def open_verifier(settings: Settings, resource: str | None = None) -> AsyncIterator[TokenVerifier]:
    """Open the verifier of callers' tokens, or of those that the issuer of KB_MCP_ISSUER gives for `resource`.

    Raises ConfigurationError.
    """
    jwt = settings.jwt
    audience, issuer = (jwt.audience, jwt.issuer) if resource is None else (resource, jwt.mcp_issuer)
    if jwt.jwks_url is None:
        secrets = shared_secrets(settings) or SharedSecrets(None, {})
        yield TokenVerifier(
            secret=secrets.unnamed, named=secrets.named, audience=audience, issuer=issuer, groups_claim=jwt.groups_claim
        )
        return
    async with httpx.AsyncClient(trust_env=False) as client:
        keys = JwksCache(jwt.jwks_url, client)
        try:
            yield TokenVerifier(keys=keys, audience=audience, issuer=issuer, groups_claim=jwt.groups_claim)
        finally:
            await keys.close()
