"""Stored revocations of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that is refused, by its `jti`; the row is deleted after `expires_at`."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime


async def lock_revocations(session: TenantSession) -> None:
    """Make other revocations of the tenant wait until this transaction ends."""
    await session.fetch_value(SQL["lock"])


async def purge_revocations(session: TenantSession) -> int:
    """Delete revocations of tokens that have expired."""
    return await session.execute(SQL["purge"])


async def count_others(session: TenantSession, token_id: str) -> int:
    """The number of the tenant's other revocations."""
    return int(await session.fetch_value(SQL["count_others"], token_id=token_id))


async def put_revocation(session: TenantSession, token_id: str, expires_at: datetime) -> RevokedToken:
    """Revoke a token; a second call only extends it."""
    row = await session.fetch_one_as(RevokedToken, SQL["put"], token_id=token_id, expires_at=expires_at)
    assert row is not None
    return row
