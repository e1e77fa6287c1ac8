"""The addresses that a provider announces (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from app.auth.download import is_secure

WELL_KNOWN = "/.well-known/openid-configuration"
"""Section 4 of OpenID Connect Discovery; it follows the issuer."""

AUTHENTICATION = ("client_secret_basic", "client_secret_post")
"""How a client with a secret identifies itself, the preferred way first; the first is also the default of section 3."""


class UnusableProvider(Exception):
    """The provider's document cannot be used; the text is for logs."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a sign-in needs to know of the provider.

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
