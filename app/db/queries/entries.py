"""Stored entries, their tags, and details for display."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from app.contract.entries import Entry, TagCount, WrittenEntry
from app.contract.reading import Section
from app.contract.vocabulary import Relationship
from app.db.rows import Place, Position, beyond, split_rows
from app.db.session import TenantSession
from app.db.statements import Order, load_statements

SQL = load_statements(__name__)


class EntryKey(NamedTuple):
    """The identity of an entry among those with the same readers, or with any if they are not `given`."""

    external_id: str | None
    content_hash: bytes
    readers: tuple[str, ...] | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """How an entry is related to another; `overlap_count` is the number of shared tags, for `tag_overlap`.

    `total` is the number of all related entries.
    """

    id: UUID
    relationship: Relationship
    overlap_count: int | None
    total: int


async def fetch_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Entry]:
    """Entries by id; ids that do not exist are omitted."""
    return {entry.id: entry for entry in await session.fetch_as(Entry, SQL["fetch"], ids=list(ids))}


async def lock_entries(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Entry]:
    """Entries by id, locked until the transaction ends, in one order so that two writers cannot block each other."""
    return {entry.id: entry for entry in await session.fetch_as(Entry, SQL["lock"], ids=list(ids))}


async def list_entries(
    session: TenantSession,
    *,
    order: Order,
    after: Position | None,
    limit: int,
    entry_type: str | None,
    tag: str | None,
    asset_id: UUID | None,
    external_id: str | None,
    source: str | None = None,
    include_expired: bool = False,
    include_quarantined: bool = False,
) -> list[Place]:
    """A page of the list of entries; `source` is `entry` (written) or `asset` (a chunk)."""
    return await session.fetch_as(
        Place,
        SQL["list"].ordered(order),
        **beyond(after),
        limit=limit,
        entry_type=entry_type,
        tag=tag,
        asset_id=asset_id,
        external_id=external_id,
        source=source,
        include_expired=include_expired,
        include_quarantined=include_quarantined,
    )


MANY_KEYS = 8
"""Keys above which the statement that looks them up is planned each time, which takes about a millisecond. A plan that
was kept from when the tenant had no entries may read all of them for each key."""


async def find_same(session: TenantSession, keys: Sequence[EntryKey]) -> dict[int, UUID]:
    """For each key: the existing entry that it duplicates, by position."""
    many = len(keys) > MANY_KEYS
    if many:
        await session.fetch(SQL["plan_each_time"])
    rows = await session.fetch(
        SQL["find_same"],
        external_ids=[key.external_id for key in keys],
        content_hashes=[key.content_hash for key in keys],
        readers=[None if key.readers is None else orjson.dumps(key.readers).decode() for key in keys],
        given=[key.given for key in keys],
    )
    if many:
        await session.fetch(SQL["plan_as_usual"])
    return {row["place"] - 1: row["id"] for row in rows}


async def find_twin(session: TenantSession, entry_id: UUID, readers: Sequence[str] | None) -> UUID | None:
    """The other entry with these readers and the same external_id or, without one, the same content."""
    return await session.fetch_value_as(UUID, SQL["find_twin"], id=entry_id, readers=readers)


async def find_readers(session: TenantSession, ids: Sequence[UUID]) -> dict[UUID, Sequence[str] | None]:
    """The readers of the entries that the caller may see."""
    return await session.fetch_pairs(SQL["readers"], ids=list(ids))


async def lock_successions(session: TenantSession) -> None:
    """Make other transactions of the tenant that supersede entries wait; call it before any entry is locked."""
    await session.fetch(SQL["lock_successions"])


async def find_successor(session: TenantSession, entry_id: UUID) -> UUID | None:
    """The entry that supersedes this one."""
    return await session.fetch_value_as(UUID, SQL["successor"], id=entry_id)


async def insert_entries(session: TenantSession, entries: Sequence[WrittenEntry]) -> set[UUID]:
    """Insert entries; returns the inserted ids. Duplicates of another writer's new entry are skipped."""
    return set(await session.fetch_column(SQL["insert"], rows=orjson.dumps(list(entries)).decode()))


async def update_entries(session: TenantSession, entries: Sequence[WrittenEntry]) -> None:
    """Write the full state of existing entries. Raises asyncpg.UniqueViolationError."""
    await session.execute(SQL["update"], rows=orjson.dumps(list(entries)).decode())


async def delete_entry(session: TenantSession, entry_id: UUID) -> bool:
    """Remove one entry; False when there is none."""
    return await session.execute(SQL["delete"], id=entry_id) > 0


async def list_derived(session: TenantSession, entry_id: UUID, limit: int) -> Sequence[UUID]:
    """The entries that name this one in `source_ids`, the newest first."""
    return await session.fetch_column(SQL["derived"], id=entry_id, limit=limit)


async def purge_expired(session: TenantSession, limit: int) -> Sequence[UUID]:
    """Remove up to `limit` entries that expired longer ago than the tenant's setting; returns their ids."""
    return await session.fetch_column(SQL["purge_expired"], limit=limit)


async def related_entries(session: TenantSession, entry_id: UUID, limit: int, most: int) -> list[Relation]:
    """Related entries, the nearest relation first; at most `most` of each kind are counted."""
    return await session.fetch_as(Relation, SQL["related"], id=entry_id, limit=limit, most=most)


async def list_tags(
    session: TenantSession, *, prefix: str, order: Order, after: TagCount | None, limit: int
) -> list[TagCount]:
    """Tags that start with the prefix; tags with equal counts are in the order of their characters."""
    return await session.fetch_as(
        TagCount,
        SQL["list_tags"].ordered(order),
        prefix=prefix,
        after_key=None if after is None else getattr(after, order.column),
        after_tag=None if after is None else after.tag,
        limit=limit,
    )


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
class StoredDocumentPart(StoredPart):
    """A part of an asset's text with its outline, as lists of JSON; all None until there is a text.

    Attributes:
        headings: start, level and title of those that begin in the part; `contents`: those of the whole text.
        tables: start, end, and the header if the table begins before the part.
        pages: number and start.
    """

    headings: Sequence[Sequence[Any]] | None
    contents: Sequence[Sequence[Any]] | None
    tables: Sequence[Sequence[Any]] | None
    pages: Sequence[Sequence[int]] | None


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
    """The name of an entry in a list: its title or the beginning of its text, and the asset of a chunk."""

    id: UUID
    title: str
    entry_type: str
    asset_name: str | None


async def name_entries(session: TenantSession, ids: Sequence[UUID]) -> list[EntryName]:
    """The names of the entries that exist and are not in quarantine."""
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
    return await session.fetch_one_as(StoredDocumentPart, SQL["document_part"], id=asset_id, start=start, size=size)


async def find_chunk(session: TenantSession, asset_id: UUID, index: int) -> tuple[int, int]:
    """A chunk's first character and the one after its last, according to its metadata; 0 if they do not contain it."""
    row = await session.fetch_row(SQL["chunk_span"], id=asset_id, index=index) if 0 <= index < 2**31 else None
    return (int(row["first"] or 0), int(row["last"] or 0)) if row else (0, 0)


async def list_chunks(session: TenantSession, asset_id: UUID, start: int, end: int) -> list[ChunkSpan]:
    """Chunks of an asset that overlap this part of its text, in order."""
    return [
        ChunkSpan(c["id"], c["chunk_index"] + 1, c["title"], int(c["char_start"]), int(c["char_end"]), c["page"])
        for c in await session.fetch(SQL["chunks"], id=asset_id, start=start, end=end)
    ]


async def find_page(session: TenantSession, asset_id: UUID, number: int) -> tuple[int | None, int | None] | None:
    """Where a page of an asset's text starts and ends, None without such a page; None if there is no such asset."""
    row = await session.fetch_row(SQL["page"], id=asset_id, number=number)
    return None if row is None else (row["start"], row["end"])


async def find_sections(
    session: TenantSession, asset_id: UUID, heading: str, limit: int
) -> list[tuple[Section, int | None]]:
    """Sections whose headings contain a text, ignoring case, exact matches first; each with its end.

    None: the end of the text.
    """
    rows = await session.fetch(SQL["sections"], id=asset_id, heading=heading, limit=limit)
    return [(section, end) for section, (end,) in split_rows(Section, rows)]


async def list_contents(session: TenantSession, asset_id: UUID, limit: int) -> list[Section]:
    """The first headings of the three upper levels."""
    return await session.fetch_as(Section, SQL["contents"], id=asset_id, limit=limit)
