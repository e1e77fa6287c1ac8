"""The chunks that are cut from an asset, and their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from app.db.queries.knowledge.assets import Inherited
from app.db.queries.knowledge.embeddings import PassageVector, as_columns
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk to be inserted into `entries`.

    `place` is its position in the document, a part of its metadata, and so are its flags.
    """

    id: UUID
    index: int
    title: str | None
    content: str
    place: Mapping[str, Any]
    text_hash: bytes
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ChunkChange:
    """A change of the fields that chunks inherit; None for a field that is unchanged.

    `titles` are the titles of the asset before and after; `place` are the keys of a chunk's metadata that are kept.
    """

    tags: Sequence[str] | None = None
    roles: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    place: Sequence[str] = ()
    titles: tuple[str | None, str | None] | None = None


@dataclass(frozen=True, slots=True)
class KnownVector:
    """An existing vector of the tenant, for a passage of the text with this hash."""

    text_hash: bytes
    passage: int
    char_start: int
    char_end: int
    vector: Any


async def delete_chunks(session: TenantSession, asset_id: UUID) -> None:
    """Remove an asset's chunks, to replace them with others."""
    await session.execute(SQL["delete_chunks"], id=asset_id)


async def insert_chunks(
    session: TenantSession,
    asset_id: UUID,
    chunks: Sequence[ChunkRow],
    inherited: Inherited,
    *,
    language: str,
) -> None:
    """Add chunks to an asset."""
    await session.execute(
        SQL["insert_chunks"],
        asset_id=asset_id,
        tags=list(inherited.tags),
        roles=list(inherited.roles),
        language=language,
        ids=[c.id for c in chunks],
        titles=[c.title for c in chunks],
        contents=[c.content for c in chunks],
        metadata=[
            orjson.dumps(
                {**inherited.metadata, **c.place, **({"flags": c.flags} if c.flags else {})}
            ).decode()
            for c in chunks
        ],
        indexes=[c.index for c in chunks],
        text_hashes=[c.text_hash for c in chunks],
    )


async def insert_vectors(session: TenantSession, model_id: int, vectors: Sequence[PassageVector]) -> None:
    """Store the vectors of chunks that the same transaction has inserted."""
    await session.execute(SQL["insert_vectors"], model_id=model_id, **as_columns(vectors))


async def known_vectors(
    session: TenantSession, asset_id: UUID, model_id: int, text_hashes: Sequence[bytes]
) -> list[KnownVector]:
    """Existing vectors for these texts, by passage: of entries that all callers may read, or the asset's readers."""
    return await session.fetch_as(
        KnownVector,
        SQL["known_vectors"],
        asset_id=asset_id,
        model_id=model_id,
        text_hashes=list(text_hashes),
    )


async def change_chunks(session: TenantSession, asset_id: UUID, change: ChunkChange) -> list[UUID]:
    """Change the chunks of an asset; returns those whose text changed."""
    old_title, new_title = change.titles or (None, None)
    rows = await session.fetch(
        SQL["change_chunks"],
        id=asset_id,
        tags=None if change.tags is None else list(change.tags),
        roles=None if change.roles is None else list(change.roles),
        metadata=None if change.metadata is None else orjson.dumps(dict(change.metadata)).decode(),
        place=list(change.place),
        with_title=change.titles is not None,
        old_title=old_title,
        new_title=new_title,
    )
    return [row["id"] for row in rows]
