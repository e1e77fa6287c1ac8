"""Stored assets and the chunks cut from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from app.db.queries.knowledge.embeddings import PassageVector, as_columns
from app.db.queries.work.jobs import Job
from app.db.rows import Position
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Asset:
    """An ingested file; `progress` is 0 to 1, `error` the reason of a failure, `chunks` the number of its entries."""

    id: UUID
    external_id: str | None
    name: str
    media_type: str
    byte_size: int
    title: str | None
    total_pages: int | None
    tags: Sequence[str]
    roles: Sequence[str]
    metadata: Mapping[str, Any]
    status: str
    error: str | None
    progress: float
    generation: int
    chunks: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class SameAsset:
    """The asset that a file duplicates or replaces."""

    id: UUID
    sha256: bytes
    byte_size: int


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes of an asset's version, and the fields that its chunks inherit."""

    name: str
    media_type: str
    data: bytes
    generation: int
    tags: Sequence[str]
    roles: Sequence[str]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of an asset; None until it is indexed."""

    text: str | None


@dataclass(frozen=True, slots=True)
class KnownVector:
    """An existing vector of the tenant, for a passage of the text with this hash."""

    text_hash: bytes
    passage: int
    char_start: int
    char_end: int
    vector: Any


@dataclass(frozen=True, slots=True)
class NewAsset:
    """A file to be ingested."""

    external_id: str | None
    name: str
    media_type: str
    sha256: bytes
    original: bytes
    tags: Sequence[str]
    roles: Sequence[str]
    metadata: Mapping[str, Any]

    def as_parameters(self) -> dict[str, Any]:
        """The columns that a new asset and a new version share."""
        return {
            "name": self.name,
            "media_type": self.media_type,
            "byte_size": len(self.original),
            "sha256": self.sha256,
            "original": self.original,
            "tags": list(self.tags),
            "roles": list(self.roles),
            "metadata": orjson.dumps(dict(self.metadata)).decode(),
        }


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk to be inserted into `entries`."""

    id: UUID
    index: int
    title: str | None
    content: str
    metadata: Mapping[str, Any]
    text_hash: bytes


async def find_same_asset(session: TenantSession, external_id: str | None, sha256: bytes) -> SameAsset | None:
    """The asset with the external_id or, without one, with the same bytes; locked."""
    return await session.fetch_one_as(SameAsset, SQL["find_same"], external_id=external_id, sha256=sha256)


async def insert_asset(session: TenantSession, asset_id: UUID, asset: NewAsset) -> bool:
    """Insert an asset; False when another writer has just inserted the same."""
    added = await session.execute(
        SQL["insert"],
        id=asset_id,
        external_id=asset.external_id,
        **asset.as_parameters(),
    )
    return added > 0


async def replace_asset(session: TenantSession, asset_id: UUID, asset: NewAsset) -> None:
    """Replace an asset's bytes with a new version; its chunks stay until they are swapped."""
    await session.execute(SQL["replace"], id=asset_id, **asset.as_parameters())


async def fetch_assets(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Asset]:
    """Assets by id, without bytes and text."""
    return {asset.id: asset for asset in await session.fetch_as(Asset, SQL["fetch"], ids=list(ids))}


async def list_assets(
    session: TenantSession, *, before: Position | None, limit: int, status: str | None
) -> list[Position]:
    """A page of positions in the list of assets, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch_as(
        Position, SQL["list"], before_at=at, before_id=last_id, limit=limit, status=status
    )


async def fetch_original(session: TenantSession, asset_id: UUID) -> Original | None:
    """The bytes of an asset, and the fields that its chunks inherit."""
    return await session.fetch_one_as(Original, SQL["original"], id=asset_id)


async def fetch_text(session: TenantSession, asset_id: UUID) -> ExtractedText | None:
    """The extracted text of an asset; None if there is no such asset."""
    return await session.fetch_one_as(ExtractedText, SQL["extracted_text"], id=asset_id)


async def set_progress(
    session: TenantSession, job: Job, asset_id: UUID, generation: int, progress: float
) -> bool:
    """Record progress; False when the asset was deleted or has a newer version, or the claim is lost."""
    touched = await session.execute(
        SQL["set_progress"],
        id=asset_id,
        generation=generation,
        progress=progress,
        job_id=job.id,
        fence=job.fence,
    )
    return touched > 0


async def finish_asset(
    session: TenantSession,
    asset_id: UUID,
    generation: int,
    *,
    title: str | None,
    text: str,
    total_pages: int | None,
) -> bool:
    """Mark an asset as indexed; False when it was deleted or has a newer version."""
    touched = await session.execute(
        SQL["finish"],
        id=asset_id,
        generation=generation,
        title=title,
        text=text,
        total_pages=total_pages,
    )
    return touched > 0


async def fail_asset(session: TenantSession, asset_id: UUID, generation: int, error: str) -> None:
    """Mark a version as failed, with the reason."""
    await session.execute(SQL["fail"], id=asset_id, generation=generation, error=error)


async def retry_asset(session: TenantSession, asset_id: UUID) -> bool:
    """Make a failed asset pending again; False when it has not failed."""
    return await session.execute(SQL["retry"], id=asset_id) > 0


async def delete_asset(session: TenantSession, asset_id: UUID) -> bool:
    """Remove an asset and its chunks."""
    return await session.execute(SQL["delete"], id=asset_id) > 0


async def delete_chunks(session: TenantSession, asset_id: UUID) -> None:
    """Remove an asset's chunks, to replace them with others."""
    await session.execute(SQL["delete_chunks"], id=asset_id)


async def insert_chunks(
    session: TenantSession,
    asset_id: UUID,
    chunks: Sequence[ChunkRow],
    *,
    tags: Sequence[str],
    roles: Sequence[str],
    language: str,
) -> None:
    """Add chunks to an asset."""
    await session.execute(
        SQL["insert_chunks"],
        asset_id=asset_id,
        tags=list(tags),
        roles=list(roles),
        language=language,
        ids=[c.id for c in chunks],
        titles=[c.title for c in chunks],
        contents=[c.content for c in chunks],
        metadata=[orjson.dumps(dict(c.metadata)).decode() for c in chunks],
        indexes=[c.index for c in chunks],
        text_hashes=[c.text_hash for c in chunks],
    )


async def insert_vectors(session: TenantSession, model_id: int, vectors: Sequence[PassageVector]) -> None:
    """Store the vectors of chunks that the same transaction has inserted."""
    await session.execute(SQL["insert_vectors"], model_id=model_id, **as_columns(vectors))


async def known_vectors(
    session: TenantSession, model_id: int, text_hashes: Sequence[bytes]
) -> list[KnownVector]:
    """Existing vectors of the tenant for these texts, by passage."""
    return await session.fetch_as(
        KnownVector, SQL["known_vectors"], model_id=model_id, text_hashes=list(text_hashes)
    )
