"""Stored revocations of tokens."""

from __future__ import annotations

from datetime import datetime

from app.contract.administration import RevokedToken
from app.db.rows import Position
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


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


async def list_revocations(session: TenantSession, before: Position | None, limit: int) -> list[RevokedToken]:
    """The tenant's revoked tokens, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch_as(RevokedToken, SQL["list"], before_at=at, before_id=last_id, limit=limit)


async def list_platform_revocations(
    session: PlatformSession, before: Position | None, limit: int
) -> list[RevokedToken]:
    """Revoked tokens of platform administrators, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch_as(RevokedToken, SQL["list_of_platform"], before_at=at, before_id=last_id, limit=limit)


async def platform_revocation_ids(session: PlatformSession) -> frozenset[str]:
    """The ids of all revoked tokens of platform administrators."""
    return frozenset(row["token_id"] for row in await session.fetch(SQL["ids_of_platform"]))


async def put_platform_revocation(
    session: PlatformSession, token_id: str, expires_at: datetime, *, most: int, actor: str
) -> RevokedToken | None:
    """Revoke a token of a platform administrator, recorded in the platform's trail; None if there are `most` others."""
    return await session.fetch_one_as(
        RevokedToken,
        SQL["put_on_platform"],
        token_id=token_id,
        expires_at=expires_at,
        most=most,
        actor=actor,
    )
