"""The session after a sign-in: a token of the service's own, since an ID token may end after minutes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from app.auth.issuing import issue_token
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
