"""Revocations of single tokens, by their `jti`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that is refused until it expires."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime
