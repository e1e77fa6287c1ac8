"""The provider of an issuer: its announced addresses and its keys, fetched and refreshed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection

import httpx

from app.auth.download import FETCH_SECONDS, Undeliverable, download, is_secure
from app.auth.jwks import JwksCache
from app.auth.keys import PublicKey
from app.auth.openid.endpoints import WELL_KNOWN, Endpoints, UnusableProvider, origin_of, parse_endpoints
from app.auth.openid.failures import ProviderUnreachable
from app.errors import ConfigurationError

logger = logging.getLogger(__name__)

FRESH_SECONDS = 3600.0
"""Up to this age, the announced addresses are used without asking again."""
MAX_STALE_SECONDS = 24 * 3600.0
"""While the provider is unavailable, its last addresses are used for this long."""
RETRY_SECONDS = 5.0
"""Fetches start at least this far apart, however many people sign in."""


class Provider:
    """The provider of `issuer`, for one event loop; `client` is injected and stays the caller's to close.

    It fetches only from the issuer's origin and from `origins`. `clock` gives monotonic seconds. Raises
    ConfigurationError for an issuer that is neither https nor on this machine.
    """

    def __init__(
        self,
        issuer: str,
        client: httpx.AsyncClient,
        *,
        origins: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not is_secure(issuer):
            raise ConfigurationError(
                "KB_OIDC_ISSUER", "must be an https:// address", "http:// only on this machine"
            )
        self.issuer = issuer
        self.origins = frozenset({origin_of(issuer), *origins})
        self._client = client
        self._clock = clock
        self._endpoints: Endpoints | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._reason = ""
        self._keys: tuple[str, JwksCache] | None = None
        self._lock = asyncio.Lock()

    async def endpoints(self) -> Endpoints:
        """The announced addresses. Raises ProviderUnreachable."""
        known = self._current(FRESH_SECONDS)
        if known is not None:
            return known
        async with self._lock:
            if self._current(FRESH_SECONDS) is None and self._clock() - self._tried_at >= RETRY_SECONDS:
                await self._fetch()
        known = self._current(MAX_STALE_SECONDS)
        if known is None:
            raise ProviderUnreachable(f"the provider's document is unusable: {self._reason}")
        return known

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The provider's key with this id for this algorithm, as `KeySource`. Raises ProviderUnreachable."""
        return await (await self._open_keys()).find(kid, algorithm)

    async def has_keys(self) -> bool:
        """Whether there are keys to verify with, fetched now if possible. Raises ProviderUnreachable."""
        return await (await self._open_keys()).refresh()

    async def close(self) -> None:
        """Cancel a running fetch of keys."""
        keys, self._keys = self._keys, None
        if keys is not None:
            await keys[1].close()

    async def _open_keys(self) -> JwksCache:
        url = (await self.endpoints()).keys
        if self._keys is None or self._keys[0] != url:
            await self.close()
            self._keys = (url, JwksCache(url, self._client, clock=self._clock))
        return self._keys[1]

    def _current(self, seconds: float) -> Endpoints | None:
        return self._endpoints if self._clock() - self._fetched_at < seconds else None

    async def _fetch(self) -> None:
        self._tried_at = started = self._clock()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                document = await download(self._client, f"{self.issuer.rstrip('/')}{WELL_KNOWN}")
            self._endpoints = parse_endpoints(document, self.issuer, self.origins)
        except (httpx.HTTPError, httpx.InvalidURL, Undeliverable, UnusableProvider, OSError) as error:
            shown = isinstance(error, Undeliverable | UnusableProvider)
            self._reason = str(error) if shown else type(error).__name__
            logger.warning("the sign-in provider could not be read", extra={"reason": self._reason})
            return
        self._fetched_at = started
