"""API keys of a tenant."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.contract.keys import ApiKey, KeyRole, NewKey
from app.db.rows import Position, beyond
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class KnownKey:
    """What verifies a key, and what it grants."""

    digest: bytes
    id: UUID
    name: str
    role: KeyRole
    groups: Sequence[str]
    expires_at: datetime | None


async def lock(session: TenantSession) -> None:
    """Make other creations of keys in the tenant wait until this transaction ends."""
    await session.fetch_value(SQL["lock"])


async def count_keys(session: TenantSession) -> int:
    """The number of keys, including expired ones."""
    return int(await session.fetch_value(SQL["count_keys"]))


async def insert_key(session: TenantSession, key_id: UUID, new: NewKey, digest: bytes) -> ApiKey | None:
    """Store a key by its digest; None if another one has its name."""
    return await session.fetch_one_as(
        ApiKey,
        SQL["insert_key"],
        id=key_id,
        name=new.name,
        digest=digest,
        role=new.role,
        groups=sorted(set(new.groups)),
        expires_at=new.expires_at,
    )


async def list_keys(session: TenantSession, before: Position | None, limit: int) -> list[ApiKey]:
    """Keys, newest first."""
    return await session.fetch_as(ApiKey, SQL["list_keys"], limit=limit, **beyond(before))


async def fetch_digests(session: TenantSession) -> list[KnownKey]:
    """All keys, to verify those that callers send."""
    return await session.fetch_as(KnownKey, SQL["digests"])


async def delete_key(session: TenantSession, key_id: UUID) -> str | None:
    """Delete a key; returns its name, or None if there is none."""
    name: str | None = await session.fetch_value(SQL["delete_key"], id=key_id)
    return name


async def note_use(session: TenantSession, key_ids: Collection[UUID]) -> None:
    """Record that keys were used just now."""
    await session.execute(SQL["note_use"], ids=list(key_ids))
