"""Fetch an issuer's public keys (JSON Web Key Set, RFC 7517), and refresh them."""

import asyncio
import base64
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.concurrency.background import start_background
from app.errors import ConfigurationError
from app.hosts import is_loopback

MAX_DOCUMENT_BYTES = 256 * 1024
FETCH_SECONDS = 5.0
"""Maximum time of one fetch, and of a request's wait for it."""


class Undeliverable(Exception):
    """The address did not answer with a small document; the text is for logs."""


async def download(client: httpx.AsyncClient, url: str) -> bytes:
    """The document at `url`, of at most MAX_DOCUMENT_BYTES; redirects are not followed.

    Raises Undeliverable, httpx.HTTPError and httpx.InvalidURL.
    """
    # Uncompressed, because a small compressed answer can be a very large one.
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with client.stream("GET", url, headers=headers, follow_redirects=False, timeout=FETCH_SECONDS) as response:
        if response.status_code != httpx.codes.OK:
            raise Undeliverable(f"status {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Undeliverable("compressed, although not requested")
        document = bytearray()
        async for piece in response.aiter_raw():
            document += piece
            if len(document) > MAX_DOCUMENT_BYTES:
                raise Undeliverable(f"larger than {MAX_DOCUMENT_BYTES} bytes")
        return bytes(document)


def is_secure(url: str) -> bool:
    """Whether an address is https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

_RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512"})
_CURVES: dict[str, tuple[str, ec.EllipticCurve]] = {
    "P-256": ("ES256", ec.SECP256R1()),
    "P-384": ("ES384", ec.SECP384R1()),
    "P-521": ("ES512", ec.SECP521R1()),
}
ALGORITHMS = _RSA_ALGORITHMS | {algorithm for algorithm, _ in _CURVES.values()}
"""Signatures accepted from an issuer: all asymmetric ones that jose has (no PS256, no EdDSA)."""

MAX_KEYS = 100
_RSA_BITS = range(2048, 8193)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]{1,2048}", re.ASCII)


class UnusableKeySet(Exception):
    """The issuer's document is not a key set."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, its id, and the algorithms that it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    public_key: PublicKey


def parse_key_set(document: bytes) -> tuple[SigningKey, ...]:
    """Read the usable keys of a key set; keys for other purposes or of other types are skipped.

    Raises UnusableKeySet if the document is not a key set.
    """
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        raise UnusableKeySet("not JSON") from None
    keys = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(keys, list):
        raise UnusableKeySet("not a list of keys")
    if len(keys) > MAX_KEYS:
        raise UnusableKeySet(f"more than {MAX_KEYS} keys")
    parsed = (_parse_key(key) for key in keys if isinstance(key, dict))
    return tuple(key for key in parsed if key is not None)


def find_key(keys: Sequence[SigningKey], kid: str | None, algorithm: str) -> PublicKey | None:
    """The one key with this id for this algorithm; without an id, the only key for it. Otherwise None."""
    found = [k for k in keys if algorithm in k.algorithms and (kid is None or k.kid == kid)]
    return found[0].public_key if len(found) == 1 else None


def _parse_key(key: Mapping[str, object]) -> SigningKey | None:
    kid, operations = key.get("kid"), key.get("key_ops", ["verify"])
    if key.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    if kid is not None and not isinstance(kid, str):
        return None
    try:
        if key.get("kty") == "RSA":
            public_key, algorithms = _parse_rsa(key), _RSA_ALGORITHMS
        elif key.get("kty") == "EC":
            public_key, algorithms = _parse_ec(key)
        else:
            return None
    except (ValueError, UnsupportedAlgorithm):
        return None
    if "alg" in key:
        algorithms = algorithms & {key["alg"]} if isinstance(key["alg"], str) else frozenset()
    return SigningKey(kid, algorithms, public_key) if algorithms else None


def _parse_rsa(key: Mapping[str, object]) -> PublicKey:
    modulus, exponent = _integer(key.get("n")), _integer(key.get("e"))
    if modulus.bit_length() not in _RSA_BITS or exponent.bit_length() > 32:
        raise ValueError("the size of the RSA key is not accepted")
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _parse_ec(key: Mapping[str, object]) -> tuple[PublicKey, frozenset[str]]:
    name = key.get("crv")
    if not isinstance(name, str) or name not in _CURVES:
        raise ValueError("the curve is not accepted")
    algorithm, curve = _CURVES[name]
    numbers = ec.EllipticCurvePublicNumbers(_integer(key.get("x")), _integer(key.get("y")), curve)
    return numbers.public_key(), frozenset({algorithm})


def _integer(value: object) -> int:
    if not isinstance(value, str) or not _BASE64URL.fullmatch(value):
        raise ValueError("not a base64url number")
    return int.from_bytes(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)), "big")


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

    def __init__(self, url: str, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        if not is_secure(url):
            raise ConfigurationError("JWT_JWKS_URL", "must be an https:// address", "http:// only on this machine")
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
