"""Sign people in and out at a provider of OpenID Connect: the authorization code flow with PKCE, and its sessions."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self
from urllib.parse import quote_plus

import httpx2
from authlib.common.security import generate_token
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from joserfc.errors import JoseError

from app.auth.issuing import issue_token
from app.auth.jwks import FETCH_SECONDS, MAX_DOCUMENT_BYTES
from app.auth.openid import (
    AccessMissing,
    Endpoints,
    Provider,
    ProviderUnreachable,
    SignInDenied,
    SignInExpired,
    SignInFailed,
    UnusableAnswer,
    origin_of,
)
from app.auth.principal import GROUPS_CLAIM, Principal, find_claim, make_principal
from app.auth.tokens import LEEWAY_SECONDS, TokenVerifier, read_header
from app.errors import Unauthenticated

VALID_SECONDS = 600
"""Time to sign in at the provider, with a second factor."""

TOKEN_CHARACTERS = 48
"""Characters of `state`, `nonce` and the code verifier: 285 bits each; RFC 7636, section 4.1, demands 43 to 128 for the
last."""


def derive_key(key: bytes, purpose: str, issuer: str, client_id: str) -> bytes:
    """32 bytes for one purpose and one registration, from an encryption key in URL-safe base64."""
    info = "\0".join(("console", purpose, issuer, client_id)).encode()
    return HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(base64.urlsafe_b64decode(key))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that has begun: its random values, and the page that it leads to."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)
    page: str

    @classmethod
    def new(cls, page: str) -> Self:
        """A sign-in with new values."""
        state, nonce, code_verifier = (generate_token(TOKEN_CHARACTERS) for _ in range(3))
        return cls(state, nonce, code_verifier, page)


class Attempts:
    """Seals attempts for a cookie, so that any process can complete what another began.

    The first of `keys` seals, each opens. `clock` gives seconds since 1970.
    """

    def __init__(self, keys: Sequence[bytes], *, clock: Callable[[], float] = time.time) -> None:
        self._box = MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])
        self._clock = clock

    def seal(self, attempt: Attempt) -> str:
        """The attempt, encrypted and with its time."""
        text = json.dumps(asdict(attempt), separators=(",", ":"))
        return self._box.encrypt_at_time(text.encode(), int(self._clock())).decode()

    def open(self, sealed: str) -> Attempt:
        """The attempt. Raises SignInExpired after VALID_SECONDS and for anything that was not sealed here."""
        try:
            text = self._box.decrypt_at_time(sealed.encode(), VALID_SECONDS, int(self._clock()))
        except (InvalidToken, UnicodeEncodeError):
            raise SignInExpired("no sign-in is open in this browser") from None
        return Attempt(**json.loads(text))


MAX_EXCHANGES = 32
"""Exchanges at a time; more wait, so that a flood of callbacks does not become one at the provider."""

KNOWN_ERRORS = frozenset(
    {
        "access_denied", "account_selection_required", "consent_required", "interaction_required", "invalid_client",
        "invalid_grant", "invalid_request", "invalid_scope", "login_required", "server_error",
        "temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_response_type",
    }
)  # fmt: skip
"""Errors of RFC 6749, sections 4.1.2.1 and 5.2, and of OpenID Connect Core, section 3.1.2.6; others are not logged."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The service as a client of the provider.

    Attributes:
        client_id: its name at the provider.
        client_secret: its secret; None for a public client, which PKCE alone protects.
        scopes: what it asks for, separated by spaces; `openid` is one of them.
        redirect_uri: where the provider sends the browser back to.
    """

    client_id: str
    client_secret: str | None = field(repr=False)
    scopes: str
    redirect_uri: str


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to `origins` only and reads at most MAX_DOCUMENT_BYTES of each answer.

    `inner` stays the caller's to close.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, origins: frozenset[str]) -> None:
        self._inner = inner
        self._origins = origins

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, read completely. Raises httpx2.TransportError."""
        if origin_of(str(request.url)) not in self._origins:
            raise httpx2.UnsupportedProtocol("an address outside the provider", request=request)
        request.headers["accept-encoding"] = "identity"
        answer = await self._inner.handle_async_request(request)
        try:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise httpx2.ReadError("compressed, although not requested", request=request)
            body = bytearray()
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise httpx2.ReadError("the answer is too large", request=request)
        finally:
            await answer.aclose()
        kind = answer.headers.get("content-type", "")
        return httpx2.Response(answer.status_code, headers={"content-type": kind}, content=bytes(body))


class CodeFlow:
    """The two steps of the flow that the service takes; `transport` reaches the token endpoint."""

    def __init__(self, registration: Registration, transport: BoundedTransport) -> None:
        self._registration = registration
        self.client_id = registration.client_id
        self._transport = transport
        self._turns = asyncio.Semaphore(MAX_EXCHANGES)

    async def authorize(self, endpoints: Endpoints, attempt: Attempt) -> str:
        """The address at which the browser signs in."""
        async with self._open(endpoints) as client:
            address, _ = client.create_authorization_url(
                endpoints.authorization, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.code_verifier
            )
        return str(address)

    async def redeem(self, endpoints: Endpoints, code: str, code_verifier: str) -> Mapping[str, object]:
        """The provider's answer, with the `id_token` as a string. Raises SignInFailed."""
        try:
            async with (
                asyncio.timeout(FETCH_SECONDS),  # of the wait for a turn, too
                self._turns,
                self._open(endpoints, authenticated=True) as client,
            ):
                answer: Mapping[str, object] = await client.fetch_token(
                    endpoints.token, grant_type="authorization_code", code=code, code_verifier=code_verifier
                )
        except OAuthError as error:
            if error.error == "invalid_grant":
                raise SignInExpired("the provider refused the code") from None
            raise SignInFailed(f"the token endpoint reported {known_error(error.error)}") from None
        except (httpx2.HTTPError, ValueError, OSError) as error:
            raise ProviderUnreachable(f"the token endpoint failed: {type(error).__name__}") from None
        if not isinstance(answer.get("id_token"), str):
            raise UnusableAnswer("the token endpoint gave no id_token")
        return answer

    def _open(self, endpoints: Endpoints, *, authenticated: bool = False) -> AsyncOAuth2Client:
        """The library's client, for one step: it keeps the token of the last answer."""
        own = self._registration
        client_id, secret, way = own.client_id, own.client_secret, "none"
        if authenticated and secret is not None:
            way = endpoints.authentication
            if way == "client_secret_basic":  # RFC 6749, section 2.3.1, which the library leaves to its caller
                client_id, secret = quote_plus(client_id), quote_plus(secret)
        return AsyncOAuth2Client(
            client_id,
            secret,
            token_endpoint_auth_method=way,
            scope=own.scopes,
            redirect_uri=own.redirect_uri,
            code_challenge_method="S256",
            transport=self._transport,
            timeout=FETCH_SECONDS,
            follow_redirects=False,
            trust_env=False,
        )


def known_error(error: object) -> str:
    """The error's name if it is one of KNOWN_ERRORS, otherwise a general word: it comes from outside."""
    return error if isinstance(error, str) and error in KNOWN_ERRORS else "an unknown error"


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Where the claims have the tenant's id, the roles and the groups: a claim's name, or a path of names with dots."""

    tenant: str
    roles: str
    groups: str = GROUPS_CLAIM


@dataclass(frozen=True, slots=True)
class Identities:
    """Reads people from ID tokens; `verifier` checks signature, `iss`, `aud`, `exp`, `nbf` and `iat`."""

    verifier: TokenVerifier
    client_id: str
    names: ClaimNames

    async def read(self, id_token: str, *, nonce: str, access_token: object) -> Principal:
        """The person, with tenant and roles.

        Raises UnusableAnswer for a token that is not for this sign-in, AccessMissing for a person without tenant or
        role, and ProviderUnreachable.
        """
        try:
            claims = await self.verifier.read_claims(id_token)
            header = read_header(id_token)
        except Unauthenticated as error:
            raise UnusableAnswer(str(error)) from None
        checked = CodeIDToken(
            claims, header, params={"nonce": nonce, "client_id": self.client_id, "access_token": access_token}
        )
        try:
            checked.validate(leeway=LEEWAY_SECONDS)
        except (JoseError, TypeError, ValueError) as error:
            claim = getattr(error, "claim", None)
            raise UnusableAnswer(f"the ID token's {claim or 'claims'} are not acceptable") from None
        return self._find_person(claims)

    def _find_person(self, claims: Mapping[str, object]) -> Principal:
        known: dict[str, object] = {
            "sub": claims.get("sub"),
            "tenant_id": find_claim(claims, self.names.tenant),
            "roles": find_claim(claims, self.names.roles),
            GROUPS_CLAIM: find_claim(claims, self.names.groups),
        }
        try:
            person = make_principal(known)
        except Unauthenticated as error:
            raise AccessMissing(str(error)) from None
        if not person.roles:
            raise AccessMissing("the token's roles contain none of the service")
        return person


KEY_ID_CHARACTERS = 16


class Sessions:
    """Issues and verifies the tokens of sessions, which no other interface accepts.

    The first of `keys` signs, each verifies. `service` is the address of the console, the tokens' `iss` and `aud`;
    `seconds` is how long one is valid. `clock` gives seconds since 1970.
    """

    def __init__(
        self, keys: Sequence[bytes], *, service: str, seconds: int, clock: Callable[[], float] = time.time
    ) -> None:
        named = {hashlib.sha256(key).hexdigest()[:KEY_ID_CHARACTERS]: key.hex() for key in keys}
        self._kid, self._secret = next(iter(named.items()))
        self._service = service
        self._seconds = seconds
        self.verifier = TokenVerifier(named=named, audience=service, issuer=service, clock=clock)

    def issue(self, principal: Principal) -> str:
        """A token for the person; it has an id, by which it can be revoked."""
        return issue_token(
            self._secret,
            kid=self._kid,
            tenant_id=principal.tenant_id,
            roles=principal.roles,
            subject=principal.subject,
            ttl=self._seconds,
            groups=principal.groups,
            audience=self._service,
            issuer=self._service,
        )


MAX_CODE_CHARACTERS = 4096
MAX_HINT_CHARACTERS = 3_900
"""Longest ID token that is kept for the sign-out: browsers drop a cookie that exceeds 4,096 characters."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun: the address for the browser, and the data that it keeps."""

    address: str
    sealed: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Completed:
    """A sign-in that succeeded; `hint` is the ID token for the sign-out, None if it is too long."""

    principal: Principal
    token: str = field(repr=False)
    page: str
    hint: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderSignIn:
    """Sign-in at one provider; `name` is what people call it, `home` the address at which they reach the service."""

    provider: Provider
    flow: CodeFlow
    identities: Identities
    attempts: Attempts
    sessions: Sessions
    name: str
    home: str

    def verifier_of(self, token: str) -> TokenVerifier | None:
        """The verifier of a session's token; None for any other token."""
        return self.sessions.verifier if self.sessions.verifier.names_own_secret(token) else None

    async def begin(self, page: str) -> Begun:
        """Begin a sign-in that leads to `page`. Raises ProviderUnreachable."""
        endpoints = await self.provider.endpoints()
        attempt = Attempt.new(page)
        address = await self.flow.authorize(endpoints, attempt)
        return Begun(address, self.attempts.seal(attempt))

    async def complete(self, sealed: str, answer: Mapping[str, str]) -> Completed:
        """Complete the sign-in that this browser began, with the parameters that it brings from the provider.

        Raises SignInFailed.
        """
        attempt = self.attempts.open(sealed)
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise SignInExpired("the answer belongs to another sign-in")
        endpoints = await self.provider.endpoints()
        code = self._read_code(endpoints, answer)
        tokens = await self.flow.redeem(endpoints, code, attempt.code_verifier)
        id_token = str(tokens["id_token"])
        principal = await self.identities.read(id_token, nonce=attempt.nonce, access_token=tokens.get("access_token"))
        hint = id_token if len(id_token) <= MAX_HINT_CHARACTERS else None
        return Completed(principal, self.sessions.issue(principal), attempt.page, hint)

    async def end_session(self, hint: str, page: str) -> str | None:
        """Where the browser ends the provider's session, to return to `page`; None where that is not possible.

        RP-Initiated Logout 1.0, section 2: `hint` is the ID token, or empty.
        """
        try:
            address = (await self.provider.endpoints()).end_session
        except ProviderUnreachable:
            return None
        if address is None:
            return None
        given = {"client_id": self.flow.client_id, "post_logout_redirect_uri": page}
        if hint:
            given["id_token_hint"] = hint
        return str(add_params_to_uri(address, list(given.items())))

    def _read_code(self, endpoints: Endpoints, answer: Mapping[str, str]) -> str:
        named = answer.get("iss")
        if named != self.provider.issuer and (named is not None or endpoints.names_issuer):
            raise UnusableAnswer("the answer is from another issuer")
        error = answer.get("error")
        if error == "access_denied":
            raise SignInDenied("the provider reported access_denied")
        if error in ("temporarily_unavailable", "server_error"):
            raise ProviderUnreachable(f"the provider reported {error}")
        if error is not None:
            raise SignInFailed(f"the provider reported {known_error(error)}")
        code = answer.get("code", "")
        if not 1 <= len(code) <= MAX_CODE_CHARACTERS:
            raise SignInFailed("the answer has no code")
        return code
