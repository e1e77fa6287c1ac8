"""Sign people in and out at the provider."""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from authlib.common.urls import add_params_to_uri

from app.auth.issuing import issue_token
from app.auth.openid.code_flow import Attempt, Attempts, CodeFlow, Identities, known_error
from app.auth.openid.provider import (
    Endpoints,
    Provider,
    ProviderUnreachable,
    SignInDenied,
    SignInExpired,
    SignInFailed,
    UnusableAnswer,
)
from app.auth.principal import Principal
from app.auth.tokens import TokenVerifier

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


class ProviderSignIn:
    """Sign-in at one provider; `name` is what people call it, `home` the address at which they reach the service."""

    def __init__(
        self,
        provider: Provider,
        flow: CodeFlow,
        identities: Identities,
        attempts: Attempts,
        sessions: Sessions,
        *,
        name: str,
        home: str,
    ) -> None:
        self.name = name
        self.home = home
        self._provider = provider
        self._flow = flow
        self._identities = identities
        self._attempts = attempts
        self._sessions = sessions

    def verifier_of(self, token: str) -> TokenVerifier | None:
        """The verifier of a session's token; None for any other token."""
        return self._sessions.verifier if self._sessions.verifier.names_own_secret(token) else None

    async def begin(self, page: str) -> Begun:
        """Begin a sign-in that leads to `page`. Raises ProviderUnreachable."""
        endpoints = await self._provider.endpoints()
        attempt = Attempt.new(page)
        address = await self._flow.authorize(endpoints, attempt)
        return Begun(address, self._attempts.seal(attempt))

    async def complete(self, sealed: str, answer: Mapping[str, str]) -> Completed:
        """Complete the sign-in that this browser began, with the parameters that it brings from the provider.

        Raises SignInFailed.
        """
        attempt = self._attempts.open(sealed)
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise SignInExpired("the answer belongs to another sign-in")
        endpoints = await self._provider.endpoints()
        code = self._read_code(endpoints, answer)
        tokens = await self._flow.redeem(endpoints, code, attempt.code_verifier)
        id_token = str(tokens["id_token"])
        principal = await self._identities.read(id_token, nonce=attempt.nonce, access_token=tokens.get("access_token"))
        hint = id_token if len(id_token) <= MAX_HINT_CHARACTERS else None
        return Completed(principal, self._sessions.issue(principal), attempt.page, hint)

    async def end_session(self, hint: str, page: str) -> str | None:
        """Where the browser ends the provider's session, to return to `page`; None where that is not possible.

        RP-Initiated Logout 1.0, section 2: `hint` is the ID token, or empty.
        """
        try:
            address = (await self._provider.endpoints()).end_session
        except ProviderUnreachable:
            return None
        if address is None:
            return None
        given = {"client_id": self._flow.client_id, "post_logout_redirect_uri": page}
        if hint:
            given["id_token_hint"] = hint
        return str(add_params_to_uri(address, list(given.items())))

    def _read_code(self, endpoints: Endpoints, answer: Mapping[str, str]) -> str:
        named = answer.get("iss")
        if named != self._provider.issuer and (named is not None or endpoints.names_issuer):
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
