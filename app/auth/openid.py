"""The OpenID Connect provider of an issuer: its endpoints and keys, and why a sign-in there failed."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

import httpx

from app.auth.jwks import FETCH_SECONDS, JwksCache, PublicKey, Undeliverable, download, is_secure
from app.errors import ConfigurationError


class SignInFailed(Exception):
    """The sign-in ended without a session.

    The text is the `reason`, for the log: it names no person and contains no secret. `advice` is for the page; `{name}`
    in it stands for the provider's name.
    """

    advice: ClassVar[str] = "{name} could not sign you in. Try again, or ask your administrator."


class ProviderUnreachable(SignInFailed):
    """The provider did not answer, or not usably."""

    advice = "{name} does not answer at the moment. Try again in a minute."


class SignInExpired(SignInFailed):
    """No sign-in of this browser is open: too much time passed, or another one was started."""

    advice = "This sign-in has expired, or was not started in this browser. Start again."


class SignInDenied(SignInFailed):
    """The provider or the person refused."""

    advice = "{name} refused the sign-in."


class AccessMissing(SignInFailed):
    """The provider identifies the person, but its claims give no tenant or no role."""

    advice = "Your account has no access to this service. Ask your administrator for a tenant and a role."


class TooManyGroups(SignInFailed):
    """The session of the person would be longer than a cookie can be."""

    advice = (
        "Your account has more groups than a session can hold. Ask your administrator to let {name} send only those"
        " that this service needs."
    )


class UnusableAnswer(SignInFailed):
    """The provider's token is not acceptable."""

    advice = "The answer of {name} could not be verified. Try again, or ask your administrator."


WELL_KNOWN = "/.well-known/openid-configuration"
"""Section 4 of OpenID Connect Discovery; it follows the issuer."""

AUTHENTICATION = ("client_secret_basic", "client_secret_post")
"""How a client with a secret identifies itself, the preferred way first; the first is also the default of section 3."""


class UnusableProvider(Exception):
    """The provider's document cannot be used; the text is for logs."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The parts of the provider that a sign-in needs.

    Attributes:
        authorization: where the browser signs in.
        token: where the service exchanges a code.
        keys: where the provider's public keys are.
        end_session: where the browser signs out, if anywhere.
        authentication: how a client with a secret identifies itself, one of AUTHENTICATION.
        names_issuer: whether each answer must have an `iss` (RFC 9207).
    """

    authorization: str
    token: str
    keys: str
    end_session: str | None
    authentication: str
    names_issuer: bool


def parse_endpoints(document: bytes, issuer: str, origins: frozenset[str]) -> Endpoints:
    """Read the provider's document. Raises UnusableProvider.

    `origins` are those from which the service fetches. The browser follows `authorization` and `end_session` itself, so
    they only have to be secure; an `end_session` that is not is left out.
    """
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        raise UnusableProvider("not JSON") from None
    if not isinstance(value, dict):
        raise UnusableProvider("not an object")
    if value.get("issuer") != issuer:
        raise UnusableProvider("it is the document of another issuer")
    challenges = value.get("code_challenge_methods_supported", ["S256"])
    if not isinstance(challenges, list) or "S256" not in challenges:
        raise UnusableProvider("PKCE with S256 is not supported")
    return Endpoints(
        authorization=_secure(value, "authorization_endpoint"),
        token=_fetchable(value, "token_endpoint", origins),
        keys=_fetchable(value, "jwks_uri", origins),
        end_session=_secure_or_none(value, "end_session_endpoint"),
        authentication=_authentication(value),
        names_issuer=value.get("authorization_response_iss_parameter_supported") is True,
    )


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, the port only if it is not the scheme's own. Raises ValueError."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, usual) else "")


def _secure(value: Mapping[str, object], name: str) -> str:
    url = value.get(name)
    if not isinstance(url, str) or not url.isprintable() or " " in url or not is_secure(url):
        raise UnusableProvider(f"{name} is not an https:// address")
    return url


def _secure_or_none(value: Mapping[str, object], name: str) -> str | None:
    try:
        return _secure(value, name)
    except UnusableProvider:
        return None


def _fetchable(value: Mapping[str, object], name: str, origins: frozenset[str]) -> str:
    url = _secure(value, name)
    try:
        known = origin_of(url) in origins
    except ValueError:
        known = False
    if not known:
        raise UnusableProvider(f"{name} is at another origin than the issuer and KB_OIDC_ORIGINS")
    return url


def _authentication(value: Mapping[str, object]) -> str:
    supported = value.get("token_endpoint_auth_methods_supported", [AUTHENTICATION[0]])
    found = [way for way in AUTHENTICATION if isinstance(supported, list) and way in supported]
    # A public client needs none of them.
    return found[0] if found else AUTHENTICATION[0]


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
            raise ConfigurationError("KB_OIDC_ISSUER", "must be an https:// address", "http:// only on this machine")
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
