"""Details of entries and assets, for display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.contract.reading import Section
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class EntryVectors:
    """An entry's vectors of one model.

    Attributes:
        is_current: whether searches use the model.
        state: `ready`, `pending` (still to be computed), `refused` (all tries failed), or `none`.
        passages: each passage's first character and the one after its last, in the text that is embedded: title, an
            empty line, content.
    """

    provider: str
    name: str
    dimensions: int
    is_current: bool
    state: str
    attempts: int
    passages: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Connection:
    """An entry linked from or to another one: `parent`, `superseded_by`, `source`, `child` or `supersedes`."""

    relation: str
    id: UUID
    entry_type: str
    title: str | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part of an asset's text, and the length of the whole text; both None until there is a text."""

    text: str | None
    total: int | None


@dataclass(frozen=True, slots=True)
class StoredDocumentPart:
    """A part of an asset's text with its outline, as lists of JSON; all None until there is a text.

    Attributes:
        headings: start, level and title of those that begin in the part; `contents`: those of the whole text.
        tables: start, end, and the header if the table begins before the part.
        pages: number and start.
    """

    text: str | None
    total: int | None
    headings: Sequence[Sequence[Any]] | None
    contents: Sequence[Sequence[Any]] | None
    tables: Sequence[Sequence[Any]] | None
    pages: Sequence[Sequence[int]] | None


@dataclass(frozen=True, slots=True)
class SectionSpan(Section):
    """A heading of an asset's text, and where its section ends; None: at the end of the text."""

    end: int | None


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Where a page of an asset's text starts and ends; None: there is no such page."""

    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk's place in its asset's text, in characters; `number` counts the chunks from 1."""

    id: UUID
    number: int
    title: str | None
    start: int
    end: int
    page: str | None


@dataclass(frozen=True, slots=True)
class EntryName:
    """What a list calls an entry: its title, or the beginning of its text, and the asset of a chunk."""

    id: UUID
    title: str
    entry_type: str
    asset_name: str | None


async def name_entries(session: TenantSession, ids: Sequence[UUID]) -> list[EntryName]:
    """The names of those of the entries that are there and not in quarantine."""
    return await session.fetch_as(EntryName, SQL["entry_names"], ids=list(ids))


async def fetch_vectors(session: TenantSession, entry_id: UUID) -> list[EntryVectors]:
    """Models of which the entry has or waits for vectors, the tenant's model first; without the vectors."""
    return await session.fetch_as(EntryVectors, SQL["vectors"], id=entry_id)


async def fetch_connections(
    session: TenantSession, entry_id: UUID, limit: int, include_quarantined: bool
) -> list[Connection]:
    """Entries linked from or to the entry, each with an excerpt."""
    return await session.fetch_as(
        Connection, SQL["connections"], id=entry_id, limit=limit, include_quarantined=include_quarantined
    )


async def count_accesses(session: TenantSession, entry_id: UUID) -> int:
    """How often the entry was read."""
    return int(await session.fetch_value(SQL["accesses"], id=entry_id) or 0)


async def fetch_text_part(session: TenantSession, asset_id: UUID, start: int, size: int) -> StoredPart | None:
    """`size` characters of an asset's text from `start`; None if there is no such asset."""
    return await session.fetch_one_as(StoredPart, SQL["text_part"], id=asset_id, start=start, size=size)


async def fetch_document_part(
    session: TenantSession, asset_id: UUID, start: int, size: int
) -> StoredDocumentPart | None:
    """`size` characters of an asset's text from `start` with their outline; None if there is no such asset."""
    return await session.fetch_one_as(
        StoredDocumentPart, SQL["document_part"], id=asset_id, start=start, size=size
    )


async def find_chunk(session: TenantSession, asset_id: UUID, index: int) -> tuple[int, int]:
    """A chunk's first character and the one after its last, according to its metadata; 0 if they do not contain it."""
    row = await session.fetch_row(SQL["chunk_span"], id=asset_id, index=index) if 0 <= index < 2**31 else None
    return (int(row["first"] or 0), int(row["last"] or 0)) if row else (0, 0)


async def list_chunks(session: TenantSession, asset_id: UUID, start: int, end: int) -> list[ChunkSpan]:
    """Chunks of an asset that overlap this part of its text, in order."""
    return [
        ChunkSpan(
            c["id"], c["chunk_index"] + 1, c["title"], int(c["char_start"]), int(c["char_end"]), c["page"]
        )
        for c in await session.fetch(SQL["chunks"], id=asset_id, start=start, end=end)
    ]


async def find_page(session: TenantSession, asset_id: UUID, number: int) -> PageSpan | None:
    """Where a page of an asset's text starts and ends; None if there is no such asset."""
    return await session.fetch_one_as(PageSpan, SQL["page"], id=asset_id, number=number)


async def find_sections(
    session: TenantSession, asset_id: UUID, heading: str, limit: int
) -> list[SectionSpan]:
    """Sections whose headings contain a text, in any case, those that are equal to it first."""
    return await session.fetch_as(SectionSpan, SQL["sections"], id=asset_id, heading=heading, limit=limit)


async def list_contents(session: TenantSession, asset_id: UUID, limit: int) -> list[SectionSpan]:
    """The first headings of the three upper levels, without the ends of their sections."""
    return await session.fetch_as(SectionSpan, SQL["contents"], id=asset_id, limit=limit)
