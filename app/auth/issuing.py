"""Issue bearer tokens, signed with a shared secret, and links that sign in to the console once."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Collection
from uuid import UUID, uuid4

from jose.utils import is_pem_format, is_ssh_key

from app.auth.principal import GROUPS_CLAIM, Role, check_groups, make_principal, parse_object
from app.errors import ConfigurationError, FieldError, InvalidInput, Unauthenticated

HMAC_ALGORITHM = "HS256"
MIN_SECRET_BYTES = 32
"""RFC 7518, section 3.2: an HS256 key is at least as long as the hash."""
MAX_TTL_SECONDS = 10 * 366 * 24 * 3600


def issue_token(
    secret: str,
    *,
    kid: str | None = None,
    tenant_id: UUID | None,
    roles: Collection[Role],
    subject: str,
    ttl: int,
    groups: Collection[str] = (),
    audience: str | None = None,
    issuer: str | None = None,
) -> str:
    """Create an HS256 token that is valid for `ttl` seconds from now; `kid` names its secret.

    The signature is computed without the JWT library: importing it takes longer than the command that prints a token.
    Raises InvalidInput for claims that `TokenVerifier` would refuse, ConfigurationError for a bad secret.
    """
    key = check_secret(secret)
    if not 1 <= ttl <= MAX_TTL_SECONDS:
        raise InvalidInput.of("ttl", f"must be from 1 to {MAX_TTL_SECONDS} seconds")
    if not roles:
        raise InvalidInput.of("roles", "must name at least one role")
    now = int(time.time())
    claims: dict[str, object] = {
        "sub": subject,
        "roles": sorted(role.value for role in roles),
        "iat": now,
        "exp": now + ttl,
        "jti": str(uuid4()),
    }
    if tenant_id is not None:
        claims["tenant_id"] = str(tenant_id)
    if groups:
        claims[GROUPS_CLAIM] = list(check_groups(groups))
    if audience is not None:
        claims["aud"] = audience
    if issuer is not None:
        claims["iss"] = issuer
    try:
        make_principal(claims)
    except Unauthenticated as error:
        raise InvalidInput([FieldError("token", str(error))]) from None
    header = {"alg": HMAC_ALGORITHM, "typ": "JWT", **({} if kid is None else {"kid": kid})}
    signed = b".".join(_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    return b".".join((signed, _encode(hmac.digest(key, signed, hashlib.sha256)))).decode()


def read_token_id(token: str) -> str:
    """The `jti` of a token that `issue_token` created; the signature is not checked."""
    return str(read_unverified(token)["jti"])


def read_unverified(token: str) -> dict[str, object]:
    """The claims of a token whose signature is not checked. Raises Unauthenticated."""
    _, _, rest = token.partition(".")
    body = rest.partition(".")[0]
    try:
        return parse_object(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except ValueError:
        raise Unauthenticated("the token is malformed") from None


def check_secret(secret: str, setting: str = "JWT_SECRET") -> bytes:
    """The bytes of a shared secret. Raises ConfigurationError, which names the setting, for an unsuitable one."""
    data = secret.encode("utf-8", "surrogateescape")
    if len(data) < MIN_SECRET_BYTES:
        raise ConfigurationError(setting, f"must be at least {MIN_SECRET_BYTES} bytes long")
    if is_pem_format(data) or is_ssh_key(data):
        raise ConfigurationError(setting, "must be a secret, not a public key or certificate")
    return data


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


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


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
