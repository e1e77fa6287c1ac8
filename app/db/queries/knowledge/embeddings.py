"""Vectors, and entries that still wait for vectors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.db.session import TenantSession
from app.db.statements import load_statements

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
    """The text of an entry that waits for its vectors."""

    entry_id: UUID
    title: str | None
    content: str
    text_hash: bytes


async def mark_pending(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Queue entries for vectors of the tenant's model."""
    await session.execute(SQL["mark_pending"], ids=list(ids))


async def drop_vectors(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Remove all vectors of entries whose text changed."""
    await session.execute(SQL["drop_vectors"], ids=list(ids))


async def copy_known(session: TenantSession, model_id: int, ids: Sequence[UUID]) -> set[UUID]:
    """Copy existing vectors of equal texts to waiting entries; returns the entries that received them."""
    rows = await session.fetch(SQL["copy_known"], model_id=model_id, ids=list(ids))
    return {row["entry_id"] for row in rows}


async def list_pending(
    session: TenantSession,
    model_id: int,
    ids: Sequence[UUID] | None,
    limit: int,
    *,
    without: Collection[UUID] = (),
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


async def store_vectors(session: TenantSession, model_id: int, vectors: Sequence[PassageVector]) -> None:
    """Store the vectors of entries whose text has not changed since, and remove the entries from the queue."""
    await session.execute(SQL["store"], model_id=model_id, **as_columns(vectors))


async def replace_vectors(session: TenantSession, model_id: int, vectors: Sequence[PassageVector]) -> None:
    """Like `store_vectors`, in place of the vectors that the entries have; an entry's passages change together."""
    await session.execute(SQL["replace"], model_id=model_id, **as_columns(vectors))


def as_columns(vectors: Sequence[PassageVector]) -> dict[str, list[Any]]:
    """Vectors as arrays, which the statements unnest."""
    return {
        "entry_ids": [v.entry_id for v in vectors],
        "passages": [v.passage for v in vectors],
        "text_hashes": [v.text_hash for v in vectors],
        "char_starts": [v.char_start for v in vectors],
        "char_ends": [v.char_end for v in vectors],
        # Wrapped, since the driver treats a bare array as another dimension of the list.
        "vectors": [v.vector if isinstance(v.vector, HalfVector) else HalfVector(v.vector) for v in vectors],
    }


async def count_pending(session: TenantSession) -> int:
    """How many entries wait for vectors."""
    return int(await session.fetch_value(SQL["count_pending"]))


async def note_failure(session: TenantSession, model_id: int, ids: Sequence[UUID]) -> None:
    """Count a failed attempt to embed."""
    await session.execute(SQL["note_failure"], model_id=model_id, ids=list(ids))
