"""An issuer's published keys: fetching and refreshing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import httpx

from app.auth.download import FETCH_SECONDS, Undeliverable, download, is_secure
from app.auth.keys import PublicKey, SigningKey, UnusableKeySet, find_key, parse_key_set
from app.concurrency.background import start_background
from app.errors import ConfigurationError

logger = logging.getLogger(__name__)

FRESH_SECONDS = 30.0
"""Up to this age, keys are used directly; after it, they are fetched again in the background."""
WAIT_SECONDS = 50.0
"""From this age, a request waits for the fetch, so that a revoked key is refused within 60 s."""
RETRY_SECONDS = 10.0
"""Fetches start at least this far apart, however many unknown key ids arrive."""
MAX_STALE_SECONDS = 3600.0
"""While the issuer is unavailable, its last keys are used for this long; after that, no token is accepted."""


class JwksCache:
    """The keys at `url`, for one event loop; `client` is injected and stays the caller's to close.

    `clock` gives monotonic seconds. Raises ConfigurationError for an address that is neither https nor on
    this machine.
    """

    def __init__(
        self, url: str, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        _check_url(url)
        self._url = url
        self._client = client
        self._clock = clock
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._failed_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The one key with this id (None: the only one) for this algorithm; None when there is none."""
        key = self._lookup(kid, algorithm)
        if key is not None and self._age() < FRESH_SECONDS:
            return key
        fetching = self._start_fetch()
        if fetching is None or (key is not None and self._may_answer_first()):
            return key
        # Shielded: a caller that gives up must not end the fetch for the others.
        await asyncio.shield(fetching)
        return self._lookup(kid, algorithm)

    async def refresh(self) -> bool:
        """Fetch the keys now, unless that was just tried; return whether there are keys to verify with."""
        fetching = self._start_fetch()
        if fetching is not None:
            await asyncio.shield(fetching)
        return bool(self._keys) and self._age() < MAX_STALE_SECONDS

    async def close(self) -> None:
        """Cancel a running fetch."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _lookup(self, kid: str | None, algorithm: str) -> PublicKey | None:
        return find_key(self._keys, kid, algorithm) if self._age() < MAX_STALE_SECONDS else None

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _may_answer_first(self) -> bool:
        """Whether a known key is used without waiting: it is recent, or the issuer was just unavailable."""
        away = self._failed_at is not None and self._clock() - self._failed_at < 2 * RETRY_SECONDS
        return away or self._age() < WAIT_SECONDS

    def _start_fetch(self) -> asyncio.Task[None] | None:
        """The running fetch, or a new one, or None if the last one was too recent."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < RETRY_SECONDS:
            return None
        self._tried_at = now
        self._fetching = start_background(self._fetch())
        return self._fetching

    async def _fetch(self) -> None:
        started = self._clock()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                keys = parse_key_set(await download(self._client, self._url))
        except (httpx.HTTPError, httpx.InvalidURL, Undeliverable, UnusableKeySet, OSError) as error:
            self._failed_at = self._clock()
            reason = str(error) if isinstance(error, Undeliverable | UnusableKeySet) else type(error).__name__
            logger.warning("signing keys could not be fetched", extra={"reason": reason})
            return
        self._keys, self._fetched_at, self._failed_at = keys, started, None
        logger.debug("signing keys fetched", extra={"keys": len(keys)})


def _check_url(url: str) -> None:
    if not is_secure(url):
        raise ConfigurationError(
            "JWT_JWKS_URL", "must be an https:// address", "http:// only on this machine"
        )
