"""Whether people can sign in to the console at the provider of OpenID Connect."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from app.cli.doctor.finding import Finding, from_error
from app.errors import ConfigurationError

if TYPE_CHECKING:
    from app.settings import Settings


async def check_sign_in(settings: Settings) -> AsyncIterator[Finding]:
    """Fetch the provider's document and keys, and measure the time; nothing without KB_OIDC_ISSUER."""
    oidc = settings.oidc
    if oidc.issuer is None:
        return
    import httpx

    from app.auth.jwks import is_secure
    from app.auth.openid.provider import Provider, ProviderUnreachable

    home = settings.server.public_url or ""
    if home and not is_secure(home):
        yield Finding(
            "sign-in",
            "warning",
            "codes and cookies travel unencrypted: KB_PUBLIC_URL is http on another machine",
            "put a proxy with TLS in front of the service, and set KB_PUBLIC_URL to its https:// address",
        )
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            provider = Provider(oidc.issuer, client, origins=oidc.origins)
        except ConfigurationError as error:
            yield from_error("sign-in", error)
            return
        started = time.perf_counter()
        try:
            usable = await provider.has_keys()
        except ProviderUnreachable as error:
            yield Finding(
                "sign-in",
                "wrong",
                f"{error}; people can only sign in with a token",
                "open KB_OIDC_ISSUER/.well-known/openid-configuration from this machine",
            )
            return
        finally:
            await provider.close()
    milliseconds = round(1000 * (time.perf_counter() - started))
    if usable:
        yield Finding("sign-in", "ok", f"document and keys of KB_OIDC_ISSUER, fetched in {milliseconds} ms")
    else:
        yield Finding(
            "sign-in",
            "wrong",
            "the provider's keys cannot be fetched; people can only sign in with a token",
            "open the jwks_uri of the provider's document; it must return a JSON Web Key Set",
        )
