"""The sign-in of people at a provider of OpenID Connect, from the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app.composition.encryption import encryption_keys
from app.settings import Settings

if TYPE_CHECKING:
    from app.auth.openid.sign_in import ProviderSignIn

CALLBACK = "/console/sign-in/callback"
"""Where the provider sends browsers back to, under KB_PUBLIC_URL."""


@contextlib.asynccontextmanager
async def open_sign_in(settings: Settings) -> AsyncIterator[ProviderSignIn | None]:
    """Open the sign-in; None without KB_OIDC_ISSUER. Nothing is fetched yet. Raises ConfigurationError."""
    oidc, home = settings.oidc, settings.server.public_url
    if oidc.issuer is None or oidc.client_id is None or home is None:
        yield None
        return
    # Only here, because a service without a provider needs none of it.
    import httpx
    import httpx2

    from app.auth.openid.code_flow import (
        Attempts,
        BoundedTransport,
        ClaimNames,
        CodeFlow,
        Identities,
        Registration,
        derive_key,
    )
    from app.auth.openid.provider import Provider
    from app.auth.openid.sign_in import ProviderSignIn, Sessions
    from app.auth.tokens import TokenVerifier

    issuer, client_id = oidc.issuer, oidc.client_id
    roots = encryption_keys(settings)

    def derive(purpose: str) -> list[bytes]:
        return [derive_key(root, purpose, issuer, client_id) for root in roots]

    secret = oidc.client_secret.get_secret_value() if oidc.client_secret else None
    registration = Registration(client_id, secret, oidc.scopes, f"{home}{CALLBACK}")
    sessions = Sessions(
        derive("session"), service=f"{home}/console", seconds=round(3600 * oidc.session_hours)
    )
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        httpx2.AsyncHTTPTransport(trust_env=False) as connections,
    ):
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
