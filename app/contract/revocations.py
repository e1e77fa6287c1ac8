"""Revocations of single tokens, by their `jti`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

from app.contract.principals import MAX_TOKEN_ID_CHARACTERS
from app.contract.text import STORABLE, is_storable
from app.contract.validation import request

LONGEST = timedelta(days=3660)
"""The longest validity of a token that this service creates."""


def _check_id(token_id: str) -> str:
    if not is_storable(token_id):
        raise ValueError(f"must have 1 to {MAX_TOKEN_ID_CHARACTERS} characters, {STORABLE}")
    return token_id


def _check_end(expires_at: datetime) -> datetime:
    now = datetime.now(UTC)
    if not now < expires_at <= now + 2 * LONGEST:
        raise ValueError("must be a time in the future, at most 20 years from now")
    return expires_at


@request(
    schema={
        "examples": [{"token_id": "3f0e7f2e-5d5c-4f57-9a3c-0c5a1f6c7b11"}],
    }
)
class NewRevocation:
    """A token to refuse from now on, by its `jti`."""

    token_id: Annotated[
        str, Field(min_length=1, max_length=MAX_TOKEN_ID_CHARACTERS), AfterValidator(_check_id)
    ]
    expires_at: Annotated[
        Annotated[AwareDatetime, AfterValidator(_check_end)] | None,
        Field(description="When the token expires by itself; by default, as late as any token can."),
    ] = None


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that is refused until it expires."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime
