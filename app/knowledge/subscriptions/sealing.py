"""Encryption of webhook secrets in the database."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken

SEAL_PREFIX = "fernet"


class SecretUnreadable(Exception):
    """No configured key decrypts a stored secret."""


class SecretSealer:
    """Encrypts with the first key and decrypts with any; without keys, secrets are stored as they are.

    A sealed secret names its key: `fernet:KEY:TOKEN`.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """Each key is 32 bytes in URL-safe base64."""
        self._keys = {hashlib.sha256(key).hexdigest()[:8]: Fernet(key) for key in keys}

    @property
    def mark(self) -> str:
        """The start of secrets that are sealed with the first key; empty without keys."""
        return f"{SEAL_PREFIX}:{next(iter(self._keys))}:" if self._keys else ""

    def seal(self, secret: str) -> str:
        """Encrypt a secret for the database."""
        if not self._keys:
            return secret
        return self.mark + next(iter(self._keys.values())).encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """Decrypt a stored secret, or return one that was stored before there was a key. Raises SecretUnreadable."""
        if not stored.startswith(f"{SEAL_PREFIX}:"):
            return stored
        key, _, token = stored.removeprefix(f"{SEAL_PREFIX}:").partition(":")
        try:
            return self._keys[key].decrypt(token).decode()
        except (KeyError, InvalidToken):
            raise SecretUnreadable("no configured key decrypts the secret") from None
