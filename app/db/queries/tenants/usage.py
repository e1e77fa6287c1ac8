"""What a tenant has stored and embedded, as counted in the database."""

from __future__ import annotations

from dataclasses import dataclass

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """`entries` in number; `bytes` of files, and one for each character of entries' text (a title's count twice)."""

    entries: int
    bytes: int


async def fetch_stored(session: TenantSession) -> Stored:
    """What is stored, this transaction's own writes included."""
    row = await session.fetch_row(SQL["stored"])
    assert row is not None
    return Stored(row["entries"], row["bytes"])


async def lock_stored(session: TenantSession) -> None:
    """Keep other transactions that ask for this lock waiting until this one ends."""
    await session.fetch_value(SQL["lock"])


async def fetch_tokens(session: TenantSession) -> int:
    """Tokens embedded today (UTC)."""
    return int(await session.fetch_value(SQL["tokens_today"]) or 0)


async def add_tokens(session: TenantSession, tokens: int) -> None:
    """Count tokens that were embedded; last in a transaction, since it locks a row that others want."""
    if tokens > 0:
        await session.execute(SQL["add_tokens"], tokens=tokens)


async def purge_tokens(session: TenantSession, days: int) -> None:
    """Forget the counts of days that are longer ago."""
    await session.execute(SQL["purge"], days=days)
