"""Vectors, entries that wait for vectors, and the HNSW indexes of large tenants."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
from pgvector import HalfVector

from app.db.database import Database
from app.db.rows import columns_of
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements
from app.errors import DatabaseUnavailable

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class PassageVector:
    """One passage's vector; offsets index into the entry's content."""

    entry_id: UUID
    passage: int
    text_hash: bytes
    char_start: int
    char_end: int
    vector: Any


@dataclass(frozen=True, slots=True)
class PendingText:
    """The text of an entry that waits for its vectors; `parts` are those of a chunk, as in its metadata."""

    entry_id: UUID
    title: str | None
    content: str
    text_hash: bytes
    parts: object = None


async def mark_pending(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Queue entries for vectors of the tenant's model."""
    await session.execute(SQL["mark_pending"], ids=list(ids))


async def drop_vectors(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Remove all vectors of entries whose text changed."""
    await session.execute(SQL["drop_vectors"], ids=list(ids))


async def copy_known(session: TenantSession, model_id: int, ids: Sequence[UUID]) -> set[UUID]:
    """Copy existing vectors of equal texts to waiting entries; returns the entries that received them."""
    return set(await session.fetch_column(SQL["copy_known"], model_id=model_id, ids=list(ids)))


async def list_pending(
    session: TenantSession, model_id: int, ids: Sequence[UUID] | None, limit: int, *, without: Collection[UUID] = ()
) -> list[PendingText]:
    """Texts of waiting entries, longest wait first, except those in `without`."""
    return await session.fetch_as(
        PendingText,
        SQL["pending"],
        model_id=model_id,
        ids=None if ids is None else list(ids),
        without=list(without),
        limit=limit,
    )


async def store_vectors(
    session: TenantSession, model_id: int, vectors: Sequence[PassageVector], unknown: Sequence[PendingText] = ()
) -> None:
    """Store the vectors of entries whose text has not changed since, and remove the entries from the queue.

    The model knows no token of the `unknown` texts: they get no vectors, and do not wait for any.
    """
    await session.execute(SQL["store"], model_id=model_id, **as_columns(vectors), **_identify(unknown))


async def replace_vectors(
    session: TenantSession, model_id: int, vectors: Sequence[PassageVector], unknown: Sequence[PendingText] = ()
) -> None:
    """Like `store_vectors`, in place of the vectors that the entries have; an entry's passages change together."""
    await session.execute(SQL["replace"], model_id=model_id, **as_columns(vectors), **_identify(unknown))


def _identify(unknown: Sequence[PendingText]) -> dict[str, Any]:
    return {"unknown_id": [text.entry_id for text in unknown], "unknown_hash": [text.text_hash for text in unknown]}


def as_columns(vectors: Sequence[PassageVector]) -> dict[str, list[Any]]:
    """Vectors as arrays, which the statements unnest."""
    # Wrapped, since the driver treats a bare array as another dimension of the list.
    wrapped = [v.vector if isinstance(v.vector, HalfVector) else HalfVector(v.vector) for v in vectors]
    return columns_of(PassageVector, vectors) | {"vector": wrapped}


async def count_pending(session: TenantSession) -> int:
    """Count the entries that wait for vectors."""
    return int(await session.fetch_value(SQL["count_pending"]))


async def note_failure(session: TenantSession, model_id: int, ids: Sequence[UUID]) -> None:
    """Count a failed attempt to embed."""
    await session.execute(SQL["note_failure"], model_id=model_id, ids=list(ids))


TURN = 0x6B62_686E_7377
"""Key of the advisory lock that a transaction holds while it moves vectors into an index."""


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """A tenant's vectors of one model, and their index; `valid` is None if it does not exist."""

    passages: int
    state: str
    valid: bool | None


async def find_index(session: TenantSession, model_id: int) -> FoundIndex:
    """The state of the tenant's index for a model."""
    return await session.fetch_only_as(FoundIndex, SQL["find"], model_id=model_id)


async def drop_strays(database: Database, tenant_id: UUID) -> None:
    """Drop the indexes of a tenant, also of a deleted one, for models of which it has no vectors.

    If other transactions hold the partition, the next sweep tries again. Raises DatabaseUnavailable.
    """
    try:
        async with database.tenant_session(tenant_id) as session:
            for row in await session.fetch(SQL["strays"]):
                await drop_index(session, row["id"])
    except DatabaseUnavailable as error:
        if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
            raise


async def list_owners(session: PlatformSession) -> list[UUID]:
    """Those of the node's tenants that have an index, including deleted ones."""
    return await session.fetch_column(SQL["owners"])


async def find_deleted(session: PlatformSession, tenants: Sequence[UUID]) -> list[UUID]:
    """The deleted ones of these tenants."""
    return await session.fetch_column(SQL["deleted"], tenants=tenants)


async def create_index(session: TenantSession, model_id: int) -> None:
    """Create the tenant's index, empty. Raises DatabaseUnavailable if writers hold the partition."""
    await session.execute(SQL["create"], model_id=model_id)


async def drop_index(session: TenantSession, model_id: int) -> None:
    """Drop the tenant's index, if there is one. Raises DatabaseUnavailable if the partition is in use."""
    await session.fetch_value(SQL["drop"], model_id=model_id)


async def start_index(session: TenantSession, model_id: int) -> None:
    """Let new vectors go into the index from now on."""
    await session.execute(SQL["start"], model_id=model_id)


async def give_up_index(session: TenantSession, model_id: int) -> None:
    """Make searches exact from now on; new vectors stay outside the index."""
    await session.execute(SQL["give_up"], model_id=model_id)


async def clear_batch(session: TenantSession, model_id: int, limit: int) -> int:
    """Mark up to `limit` vectors as outside the index; returns how many."""
    return await session.execute(SQL["clear"], model_id=model_id, limit=limit)


async def move_batch(session: TenantSession, model_id: int, limit: int) -> int | None:
    """Move up to `limit` vectors into the index; returns how many, None while another tenant's are moved."""
    if not await session.fetch_value(SQL["take_turn"], key=TURN):
        return None
    return await session.execute(SQL["move"], model_id=model_id, limit=limit)


async def finish_index(session: TenantSession, model_id: int) -> bool:
    """Mark the tenant's index as complete, if it is."""
    return await session.execute(SQL["finish"], model_id=model_id) > 0
