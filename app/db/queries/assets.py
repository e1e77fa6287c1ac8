"""Stored assets, their bytes and extracted text, and the chunks cut from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from app.contract.assets import Asset
from app.db.queries.embeddings import PassageVector, as_columns
from app.db.queries.jobs import Job
from app.db.rows import Place, Position, beyond
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class LockedAsset:
    """What callers can change of an asset, and its bytes' identity; `title` is the one that a caller gave."""

    id: UUID
    sha256: bytes
    byte_size: int
    name: str
    title: str | None
    own_title: str | None
    tags: Sequence[str]
    roles: Sequence[str]
    metadata: Mapping[str, Any]
    readers: Sequence[str] | None
    writers: Sequence[str] | None
    source: str | None
    version: int

    @property
    def shown_title(self) -> str | None:
        """The title of the asset: the given one, else the file's own."""
        return self.own_title if self.title is None else self.title


@dataclass(frozen=True, slots=True)
class Inherited:
    """The fields that the chunks of an asset inherit, with its source; `given_title` replaces the title of the file."""

    tags: Sequence[str]
    roles: Sequence[str]
    metadata: Mapping[str, Any]
    given_title: str | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Extract:
    """The result of ingesting a file.

    Attributes:
        outline: `headings` (start, level, title), `pages` (start, end) and `tables` (start, end of the header, end);
            all places are offsets in `text`.
        pages_without_text: numbers of pages that show something and have no text.
        places_without_text: offsets in `text` of pictures of text that were not recognised.
        encoding: that of a text, None for other files.
    """

    title: str | None
    text: str
    total_pages: int | None
    outline: Mapping[str, Any]
    pages_without_text: Sequence[int]
    places_without_text: Sequence[int]
    encoding: str | None = None
    encoding_guessed: bool | None = None
    removed_controls: int | None = None


@dataclass(frozen=True, slots=True)
class NewAsset:
    """A file to be ingested; `fields` are those of AssetFields, and `readers_given` if the caller sent readers.

    `encoding` is the one that was declared for a text.
    """

    external_id: str | None
    name: str
    media_type: str
    sha256: bytes
    original: bytes
    fields: Mapping[str, Any]
    source: str | None = None
    readers_given: bool = False
    encoding: str | None = None

    def as_parameters(self) -> dict[str, Any]:
        """The columns that a new asset and a new version share."""
        return {
            "name": self.name,
            "media_type": self.media_type,
            "encoding": self.encoding,
            "byte_size": len(self.original),
            "sha256": self.sha256,
            "original": self.original,
            **self.fields,
            "metadata": orjson.dumps(self.fields["metadata"]).decode(),
        }


async def find_same_id(session: TenantSession, new: NewAsset) -> UUID | None:
    """The asset with the external_id or, without one, with the same bytes. Assets of sources do not count."""
    return await session.fetch_value_as(
        UUID,
        SQL["find_same_id"],
        external_id=new.external_id,
        sha256=new.sha256,
        readers=new.fields["readers"],
        given=new.readers_given,
    )


async def find_twin(session: TenantSession, asset_id: UUID, readers: Sequence[str] | None) -> UUID | None:
    """The other asset with these readers and the same external_id or, without one, the same bytes."""
    return await session.fetch_value_as(UUID, SQL["find_twin"], id=asset_id, readers=readers)


async def insert_asset(session: TenantSession, asset_id: UUID, asset: NewAsset) -> bool:
    """Insert an asset; False when another writer has just inserted the same."""
    added = await session.execute(
        SQL["insert"], id=asset_id, external_id=asset.external_id, source=asset.source, **asset.as_parameters()
    )
    return added > 0


async def replace_asset(session: TenantSession, asset_id: UUID, asset: NewAsset) -> None:
    """Replace an asset's bytes with a new version; its chunks stay until they are swapped."""
    await session.execute(SQL["replace"], id=asset_id, **asset.as_parameters())


async def lock_asset(session: TenantSession, asset_id: UUID) -> LockedAsset | None:
    """An asset, locked; None if there is none."""
    return await session.fetch_one_as(LockedAsset, SQL["lock"], id=asset_id)


async def change_asset(session: TenantSession, asset: LockedAsset) -> None:
    """Write the changed fields of a locked asset."""
    await session.execute(
        SQL["change"],
        id=asset.id,
        name=asset.name,
        tags=list(asset.tags),
        roles=list(asset.roles),
        metadata=orjson.dumps(dict(asset.metadata)).decode(),
        title=asset.title,
        readers=None if asset.readers is None else list(asset.readers),
        writers=None if asset.writers is None else list(asset.writers),
    )


async def fetch_assets(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Asset]:
    """Assets by id, without bytes and text."""
    return {asset.id: asset for asset in await session.fetch_as(Asset, SQL["fetch"], ids=list(ids))}


async def list_assets(
    session: TenantSession, *, order: Order, after: Position | None, limit: int, status: str | None
) -> list[Place]:
    """A page of places in the list of assets."""
    return await session.fetch_as(Place, SQL["list"].ordered(order), limit=limit, status=status, **beyond(after))


async def lock_same_bytes(session: TenantSession, asset_id: UUID) -> None:
    """Wait for the transactions that index another asset with the same bytes."""
    await session.execute(SQL["lock_same_bytes"], id=asset_id)


async def set_progress(session: TenantSession, job: Job, asset_id: UUID, generation: int, progress: float) -> bool:
    """Record progress; False when the asset was deleted or has a newer version, or the claim is lost."""
    reached = {"generation": generation, "progress": progress}
    claim = {"job_id": job.id, "fence": job.fence}
    return await session.execute(SQL["set_progress"], id=asset_id, **reached, **claim) > 0


async def finish_asset(session: TenantSession, asset_id: UUID, generation: int, extract: Extract) -> Inherited | None:
    """Mark an asset as indexed; return what its chunks inherit, None when it was deleted or has a newer version."""
    return await session.fetch_one_as(
        Inherited,
        SQL["finish"],
        id=asset_id,
        generation=generation,
        title=extract.title,
        text=extract.text,
        total_pages=extract.total_pages,
        outline=orjson.dumps(extract.outline).decode(),
        pages_without_text=list(extract.pages_without_text),
        places_without_text=list(extract.places_without_text),
        encoding=extract.encoding,
        encoding_guessed=extract.encoding_guessed,
        removed_controls=extract.removed_controls,
    )


async def fail_asset(session: TenantSession, asset_id: UUID, generation: int, error: str) -> str | None:
    """Mark a version as failed, with the reason; returns the source of the asset, if it has one."""
    return await session.fetch_value_as(str, SQL["fail"], id=asset_id, generation=generation, error=error)


async def retry_asset(session: TenantSession, asset_id: UUID) -> bool:
    """Make a failed asset pending again; False when it has not failed."""
    return await session.execute(SQL["retry"], id=asset_id) > 0


async def delete_asset(session: TenantSession, asset_id: UUID) -> bool:
    """Remove an asset and its chunks."""
    return await session.execute(SQL["delete"], id=asset_id) > 0


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


async def delete_chunks(session: TenantSession, asset_id: UUID) -> None:
    """Remove an asset's chunks, to replace them with others."""
    await session.execute(SQL["delete_chunks"], id=asset_id)


async def insert_chunks(
    session: TenantSession, asset_id: UUID, chunks: Sequence[ChunkRow], inherited: Inherited, *, language: str
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
            orjson.dumps({**inherited.metadata, **c.place, **({"flags": c.flags} if c.flags else {})}).decode()
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
) -> list[PassageVector]:
    """Existing vectors for these texts, by passage: of entries that all callers may read, or the asset's readers."""
    return await session.fetch_as(
        PassageVector, SQL["known_vectors"], asset_id=asset_id, model_id=model_id, text_hashes=list(text_hashes)
    )


async def change_chunks(session: TenantSession, asset_id: UUID, change: ChunkChange) -> list[UUID]:
    """Change the chunks of an asset; returns those whose text changed."""
    old_title, new_title = change.titles or (None, None)
    return await session.fetch_column(
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


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes of an asset's version, and the title that a caller gave."""

    name: str
    media_type: str
    encoding: str | None
    data: bytes
    generation: int
    given_title: str | None


@dataclass(frozen=True, slots=True)
class AssetContent:
    """The bytes of an asset's version, without the bytes themselves."""

    id: UUID
    name: str
    media_type: str
    byte_size: int
    sha256: bytes
    generation: int


async def fetch_original(session: TenantSession, asset_id: UUID) -> Original | None:
    """The bytes of an asset."""
    return await session.fetch_one_as(Original, SQL["original"], id=asset_id)


async def fetch_content(session: TenantSession, asset_id: UUID) -> AssetContent | None:
    """The facts about an asset's bytes; None if there is no such asset."""
    return await session.fetch_one_as(AssetContent, SQL["content"], id=asset_id)


async def fetch_content_part(session: TenantSession, content: AssetContent, start: int, length: int) -> bytes | None:
    """`length` bytes from `start` (0 is the first); None when the asset was deleted or has other bytes."""
    return await session.fetch_value_as(
        bytes, SQL["content_part"], id=content.id, generation=content.generation, start=start + 1, length=length
    )


async def fetch_text(session: TenantSession, asset_id: UUID) -> tuple[str | None] | None:
    """The extracted text of an asset, None until it is indexed; None if there is no such asset."""
    row = await session.fetch_row(SQL["extracted_text"], id=asset_id)
    return None if row is None else (row["text"],)
