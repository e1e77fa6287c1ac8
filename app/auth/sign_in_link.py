"""A link that signs in to the console once, for the person who started the service."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable

VALID_SECONDS = 15 * 60
"""Long enough to open the terminal again, and too short to be found in its history."""

KEY_BYTES = 32


class SignInLink:
    """Exchanges a random key for a token, once and within `VALID_SECONDS`.

    Only a hash of the key is kept, and the token until it is taken.
    """

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._token: str | None = token
        self._clock = clock
        self._until = clock() + VALID_SECONDS
        self._hash = b""

    def issue(self) -> str:
        """A new key, in characters that a URL may contain; it replaces the one before."""
        key = secrets.token_urlsafe(KEY_BYTES)
        self._hash = _digest(key)
        return key

    def redeem(self, key: str) -> str | None:
        """Take the token; None for another key, a second time, or too late."""
        if not self._hash or not hmac.compare_digest(_digest(key), self._hash):
            return None
        token, self._token = self._token, None
        return token if self._clock() < self._until else None


def is_loopback(host: str | None) -> bool:
    """Whether an address is one of this machine's own, which no other machine reaches."""
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
