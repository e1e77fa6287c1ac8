"""Tokens whose signature was verified a moment ago, so that a caller with many requests has it verified once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from app.auth.principal import Principal

TOKENS = 2_000
"""Most tokens that are remembered; one more takes the place of the first."""

SECONDS = 5.0
"""How long a signature counts as verified: a key that was withdrawn is refused after this time at the latest."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a token said. Its times have to be checked at each use."""

    at: float
    claims: Mapping[str, object]
    principal: Principal


class VerifiedTokens:
    """Remembers the claims of verified tokens by the tokens' SHA-256, never a token itself."""

    def __init__(self) -> None:
        self._known: dict[bytes, Verified] = {}

    def find(self, token: str, now: float) -> Verified | None:
        """What was remembered of this token in the last SECONDS."""
        digest = _digest(token)
        known = self._known.get(digest)
        if known is None or 0 <= now - known.at < SECONDS:
            return known
        del self._known[digest]
        return None

    def remember(self, token: str, verified: Verified) -> None:
        """Remember a token that was verified just now."""
        if len(self._known) >= TOKENS:
            del self._known[next(iter(self._known))]
        self._known[_digest(token)] = verified


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
