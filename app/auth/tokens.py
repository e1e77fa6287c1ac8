"""Verify bearer tokens. No other module imports the JWT library."""

import base64
import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jose import jwk, jws
from jose.exceptions import JOSEError

from app.auth.issuing import HMAC_ALGORITHM, check_secret
from app.auth.jwks import ALGORITHMS, PublicKey
from app.auth.principal import GROUPS_CLAIM, Principal, check_parties, check_times, make_principal, parse_object
from app.errors import ConfigurationError, Unauthenticated

TOKENS = 2_000
"""Most tokens that are remembered; one more takes the place of the first."""

SECONDS = 5.0
"""How long a signature counts as verified: a key that was withdrawn is refused after this time at the latest."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The claims of a token. Its times have to be checked at each use."""

    at: float
    claims: Mapping[str, object]
    principal: Principal


class VerifiedTokens:
    """Remembers the claims of verified tokens by the tokens' SHA-256, never a token itself."""

    def __init__(self) -> None:
        self._known: dict[bytes, Verified] = {}

    def find(self, token: str, now: float) -> Verified | None:
        """The result for this token from the last SECONDS, if there is one."""
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


MAX_TOKEN_CHARACTERS = 16_384
"""The longest token: 200 groups with the ids of Entra, the most that it sends, take 10,400."""

MAX_KEY_ID_CHARACTERS = 256
LEEWAY_SECONDS = 30.0

_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})


class KeySource(Protocol):
    """Gives the public keys of an issuer, e.g. `JwksCache`."""

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The one key with this id (None: the only one) for this algorithm, or None."""


class TokenVerifier:
    """Verifies bearer tokens with a shared secret (HS256) or an issuer's public keys.

    jose checks signatures only. The other checks (the token's size, `crit`, repeated keys, the algorithm bound to the
    key, every claim) are done here.

    Either shared secrets or `keys` are given. `named` are secrets by the `kid` of the tokens that they sign, `secret`
    is that of tokens with another `kid`; a token without a `kid` may be signed with any of them. `leeway` is in
    seconds, for `exp`, `nbf` and `iat`; `clock` gives seconds since 1970. Headers that offer a key (`jku`, `jwk`,
    `x5u`, `x5c`) are never read. Raises ConfigurationError for a secret that is too short or is a public key.
    """

    def __init__(
        self,
        *,
        secret: str | None = None,
        named: Mapping[str, str] | None = None,
        keys: KeySource | None = None,
        audience: str | None = None,
        issuer: str | None = None,
        groups_claim: str = GROUPS_CLAIM,
        leeway: float = LEEWAY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if (secret is None and not named) == (keys is None):
            raise ConfigurationError("JWT_SECRET or JWT_JWKS_URL", "exactly one must be set")
        self._shared = () if secret is None else (_shared_key(secret),)
        self._named = {kid: _shared_key(own, "JWT_SECRETS") for kid, own in (named or {}).items()}
        self._keys = keys
        self._audience = audience
        self._issuer = issuer
        self._groups_claim = groups_claim
        self._leeway = leeway
        self._clock = clock
        self._verified = VerifiedTokens()

    async def verify(self, token: str) -> Principal:
        """Check the signature, unless it was checked a moment ago, and every claim.

        Raises Unauthenticated with a text that is safe to show.
        """
        now = self._clock()
        verified = self._verified.find(token, now)
        if verified is None:
            claims = await self.read_claims(token)
            verified = Verified(now, claims, make_principal(claims, self._groups_claim))
            self._verified.remember(token, verified)
        else:
            check_times(verified.claims, now=now, leeway=self._leeway)
        return verified.principal

    async def read_claims(self, token: str) -> Mapping[str, object]:
        """Check the signature, the times and the parties; return all claims. Raises Unauthenticated."""
        algorithm, keys = await self._choose_keys(read_header(token))
        claims = parse_object(_verify_signature(token, algorithm, keys))
        check_times(claims, now=self._clock(), leeway=self._leeway)
        check_parties(claims, audience=self._audience, issuer=self._issuer)
        return claims

    def names_own_secret(self, token: str) -> bool:
        """Whether the token's `kid` is one of `named`; nothing is verified."""
        try:
            kid = read_header(token).get("kid")
        except Unauthenticated:
            return False
        return isinstance(kid, str) and kid in self._named

    async def _choose_keys(self, header: dict[str, object]) -> tuple[str, Sequence[object]]:
        algorithm, kid = header.get("alg"), header.get("kid")
        if self._keys is None:
            if algorithm != HMAC_ALGORITHM:
                raise Unauthenticated("the token's algorithm is not accepted here")
            return HMAC_ALGORITHM, self._choose_secrets(kid)
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise Unauthenticated("the token's algorithm is not accepted here")
        if kid is not None and not (isinstance(kid, str) and len(kid) <= MAX_KEY_ID_CHARACTERS):
            raise Unauthenticated("the token is malformed")
        public_key = await self._keys.find(kid, algorithm)
        if public_key is None:
            raise Unauthenticated("the token's signing key is not known")
        return algorithm, (jwk.construct(public_key, algorithm),)

    def _choose_secrets(self, kid: object) -> Sequence[object]:
        if kid is None:
            return (*self._named.values(), *self._shared)
        if isinstance(kid, str) and kid in self._named:
            return (self._named[kid],)
        if not self._shared:
            raise Unauthenticated("the token's signing key is not known")
        return self._shared


def _verify_signature(token: str, algorithm: str, keys: Sequence[object]) -> bytes:
    """The payload, if one of the keys signed it. Raises Unauthenticated."""
    for key in keys:
        with contextlib.suppress(JOSEError):
            payload: bytes = jws.verify(token, key, algorithms=[algorithm])
            return payload
    raise Unauthenticated("the token's signature is not valid")


def bearer_token(authorization: str | None) -> str:
    """The token of an `Authorization` header. Raises Unauthenticated."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("send a token: Authorization: Bearer <token>")
    return token.strip(" ")


def _shared_key(secret: str, setting: str = "JWT_SECRET") -> object:
    return jwk.construct(check_secret(secret, setting), HMAC_ALGORITHM)


def read_header(token: str) -> dict[str, object]:
    """Split and check a token before any part of it is trusted; the header. Raises Unauthenticated."""
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise Unauthenticated(f"the token is longer than {MAX_TOKEN_CHARACTERS} characters")
    parts = _COMPACT.fullmatch(token)
    if parts is None or any(len(part) % 4 == 1 for part in token.split(".")):
        raise Unauthenticated("the token is malformed")
    encoded = parts.group(1)
    header = parse_object(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    # RFC 7515, section 4.1.11: an unknown extension must be refused, and none is known. `b64` (RFC 7797) and `zip`
    # change how the payload is read, and must not be ignored where the issuer forgot to mark them as critical.
    if not header.keys().isdisjoint(("crit", "b64", "zip")):
        raise Unauthenticated("the token uses an extension that is not supported")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Unauthenticated("the token has another type")
    return header
