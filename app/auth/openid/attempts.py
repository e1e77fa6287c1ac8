"""A sign-in that has begun: what the browser keeps of it, sealed, until the provider sends it back."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

from authlib.common.security import generate_token
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from app.auth.openid.failures import SignInExpired

VALID_SECONDS = 600
"""Time to sign in at the provider, with a second factor."""

TOKEN_CHARACTERS = 48
"""Of `state`, `nonce` and the code verifier: 285 bits each; RFC 7636, section 4.1, demands 43 to 128 for the last."""


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
