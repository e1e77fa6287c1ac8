"""The callers of a tenant, as their last tokens described them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

MOST = 10_000
"""Callers of a tenant that are noted."""


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """A caller: its principals and roles at `last_at`, the last call that was noted."""

    subject: str
    principals: Sequence[str]
    roles: Sequence[str]
    last_at: datetime


async def note_caller(
    session: TenantSession, subject: str, principals: Sequence[str], roles: Sequence[str]
) -> None:
    """Note what a token says of a caller; a new caller beyond MOST is not noted."""
    await session.execute(
        SQL["note"], subject=subject, principals=list(principals), roles=list(roles), most=MOST
    )


async def list_callers(session: TenantSession, any_of: Sequence[str] | None, limit: int) -> list[KnownCaller]:
    """Callers with one of these principals, the latest first; None: all."""
    principals = None if any_of is None else list(any_of)
    return await session.fetch_as(KnownCaller, SQL["list"], any_of=principals, limit=limit)


async def find_caller(session: TenantSession, subject: str) -> KnownCaller | None:
    """One caller."""
    return await session.fetch_one_as(KnownCaller, SQL["find"], subject=subject)


async def forget_callers(session: TenantSession, age: timedelta) -> int:
    """Forget the callers that have not called for this time; returns their number."""
    return await session.execute(SQL["forget"], age=age)
