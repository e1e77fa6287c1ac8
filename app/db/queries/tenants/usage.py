"""What a tenant has stored and embedded, as counted by the database."""

from __future__ import annotations

from dataclasses import dataclass

from app.contract.administration import CallerUse
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """Number of `entries`; `bytes` of files, plus one for each character of entries' text (titles count twice)."""

    entries: int
    bytes: int


async def list_callers(session: TenantSession, limit: int) -> list[CallerUse]:
    """The callers of the last 24 hours, the most active first."""
    return await session.fetch_as(CallerUse, SQL["callers"], limit=limit)


async def fetch_stored(session: TenantSession) -> Stored:
    """What is stored, including the writes of this transaction."""
    row = await session.fetch_row(SQL["stored"])
    assert row is not None
    return Stored(row["entries"], row["bytes"])


async def lock_stored(session: TenantSession) -> None:
    """Make other transactions that request this lock wait until this one ends."""
    await session.fetch_value(SQL["lock"])


async def fetch_tokens(session: TenantSession) -> int:
    """Tokens embedded today (UTC)."""
    return int(await session.fetch_value(SQL["tokens_today"]) or 0)


async def add_tokens(session: TenantSession, tokens: int) -> None:
    """Count embedded tokens. Call it last in a transaction, since it locks a contended row."""
    if tokens > 0:
        await session.execute(SQL["add_tokens"], tokens=tokens)


async def purge_tokens(session: TenantSession, days: int) -> None:
    """Delete the counts of older days."""
    await session.execute(SQL["purge"], days=days)
