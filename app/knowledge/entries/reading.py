"""Read entries and assets: details, parts of texts, related entries and tags; and count how often they are read."""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args
from uuid import UUID

from app.contract.entries import (
    MAX_COUNTED,
    MAX_RELATED,
    MAX_TAG,
    Entry,
    RelatedEntry,
    RelatedMetadata,
    RelatedResponse,
    TagCount,
)
from app.contract.fields import Page
from app.contract.reading import ReadPart, Section
from app.contract.text import STORABLE, is_storable
from app.contract.validation import same_fields
from app.contract.vocabulary import TagSort
from app.db.database import Database
from app.db.queries import entries as db
from app.db.queries import hits
from app.db.queries.entries import ChunkSpan, Connection, EntryName, EntryVectors
from app.db.session import TenantSession
from app.errors import AssetNotFound, InvalidInput, Quarantined, TextNotReady
from app.knowledge.background import BackgroundWriter
from app.knowledge.paging import check_page, order_of, read_cursor, read_text, unknown_cursor, write_cursor
from app.knowledge.quarantine import HELD_ENTRY, require_released

MAX_NEIGHBOURS = 50
"""Most children, and most superseded entries, that are shown for one entry."""

MAX_PART = 100_000
DOCUMENT_PART = 20_000
"""Characters of a text on one page of the console."""

LONGEST_LINE = 4_000
"""A line that continues for more characters in the next part is cut."""

MAX_CONTENTS = 300
"""Most headings in a table of contents."""

MAX_POSITION = 2**31 - 1 - MAX_PART


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """Details beyond the entry's fields; `accesses` counts how often it was read."""

    vectors: Sequence[EntryVectors]
    connections: Sequence[Connection]
    accesses: int


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of an asset's text, which has `total` characters, and the chunks that overlap the part."""

    text: str
    start: int
    total: int
    chunks: Sequence[ChunkSpan]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of Markdown rows that ends before `end`; `header` is its header if it begins in an earlier part."""

    start: int
    end: int
    header: str | None


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins in the text."""

    number: int
    start: int


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A part of an asset's text, cut between lines, and what begins in it.

    Attributes:
        start: of the part; all places are offsets in the asset's whole text, which has `total` characters.
        number, count: this part, from 0, and how many there are.
        contents: headings of the whole text, at most `MAX_CONTENTS`.
        passage: the first character, and the one after the last, of the text that the reader came for.
    """

    text: str
    start: int
    total: int
    number: int
    count: int
    headings: Sequence[Section]
    tables: Sequence[Table]
    pages: Sequence[PageStart]
    contents: Sequence[Section]
    passage: tuple[int, int] | None


READ_LENGTH = 20_000
"""Characters of a text that are read at once."""

MAX_MATCHES = 20
"""Sections with a heading that is asked for."""


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    stop: int | None
    matches: Sequence[Section] = ()


class ReadingService:
    """Reads details of entries, parts of texts, related entries and tags, of any tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def name_entries(self, tenant_id: UUID, ids: Sequence[UUID]) -> Mapping[UUID, EntryName]:
        """The names of these entries in lists; deleted and quarantined ones are omitted."""
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.name_entries(session, ids)
        return {entry.id: entry for entry in found}

    async def entry(self, tenant_id: UUID, entry_id: UUID, *, include_quarantined: bool = False) -> EntryDetails:
        """Vectors, connections and use of an entry; for an unknown id, all are empty.

        Connections to quarantined entries are listed only with `include_quarantined`.
        """
        async with self._database.tenant_session(tenant_id) as session:
            return EntryDetails(
                await db.fetch_vectors(session, entry_id),
                await db.fetch_connections(session, entry_id, MAX_NEIGHBOURS, include_quarantined),
                await db.count_accesses(session, entry_id),
            )

    async def text_part(
        self, tenant_id: UUID, asset_id: UUID, start: int, size: int, *, include_quarantined: bool = False
    ) -> TextPart | None:
        """Read `size` characters (1 to 100,000) of an asset's text from `start`; None while there is no text.

        Raises AssetNotFound, Quarantined if a part of the text is in quarantine, without `include_quarantined`, and
        InvalidInput for a part that is out of range for every text.
        """
        if not 0 <= start <= MAX_POSITION or not 1 <= size <= MAX_PART:
            raise InvalidInput.of("start", "must be a position in the text")
        async with self._database.tenant_session(tenant_id) as session:
            part = await db.fetch_text_part(session, asset_id, start, size)
            if part is None:
                raise AssetNotFound("there is no asset with this id")
            if part.text is None:
                return None
            chunks = await db.list_chunks(session, asset_id, start, start + len(part.text))
            if not include_quarantined:
                await require_released(session, asset_id)
        return TextPart(part.text, start, part.total or 0, chunks)

    async def find_chunk(self, tenant_id: UUID, asset_id: UUID, index: int) -> tuple[int, int]:
        """Where a chunk starts and ends in its asset's text; 0 if the chunk does not exist or its place is unknown."""
        async with self._database.tenant_session(tenant_id) as session:
            start, end = await db.find_chunk(session, asset_id, index)
        return (start, end) if 0 <= start <= end <= MAX_POSITION else (0, 0)

    async def document_part(
        self,
        tenant_id: UUID,
        asset_id: UUID,
        start: int,
        passage: tuple[int, int] | None = None,
        *,
        include_quarantined: bool = False,
    ) -> DocumentPart | None:
        """Read the part of an asset's text that contains `start`; None while there is no text.

        A line belongs to the part in which it begins. Raises AssetNotFound, Quarantined if a part of the text is in
        quarantine, without `include_quarantined`, and InvalidInput for a position that is out of range for every text.
        """
        if not 0 <= start <= MAX_POSITION:
            raise InvalidInput.of("start", "must be a position in the text")
        number = start // DOCUMENT_PART
        async with self._database.tenant_session(tenant_id) as session:
            while True:
                first = max(0, number * DOCUMENT_PART - 1)
                part = await db.fetch_document_part(session, asset_id, first, DOCUMENT_PART + LONGEST_LINE + 1)
                if part is None:
                    raise AssetNotFound("there is no asset with this id")
                if part.text is None:
                    return None
                begin = _find_cut(part.text, first, number * DOCUMENT_PART)
                if begin <= start or number == 0:
                    break
                number -= 1  # the line of `start` begins in the previous part
            if not include_quarantined:
                await require_released(session, asset_id)
        end = _find_cut(part.text, first, (number + 1) * DOCUMENT_PART)
        total = part.total or 0
        headings = [Section(title, level, place) for place, level, title in part.headings or ()]
        return DocumentPart(
            text=part.text[begin - first : end - first],
            start=begin,
            total=total,
            number=number,
            count=max(1, -(-total // DOCUMENT_PART)),
            headings=[heading for heading in headings if begin <= heading.start < end],
            tables=[Table(*t) for t in part.tables or () if t[0] < end and t[1] > begin],
            pages=[PageStart(*page) for page in part.pages or () if begin <= page[1] < end],
            contents=[Section(title, level, place) for place, level, title in (part.contents or ())[:MAX_CONTENTS]],
            passage=passage,
        )

    async def read_part(
        self,
        tenant_id: UUID,
        asset_id: UUID,
        *,
        page: int | None = None,
        heading: str | None = None,
        start: int | None = None,
        length: int = READ_LENGTH,
    ) -> ReadPart:
        """Read at most `length` characters (1 to 100,000) of a page, of the section of a heading, or from `start`.

        A heading is found by a part of it, in any case. Without any of the three, the text is read from its beginning.
        Raises AssetNotFound, TextNotReady, Quarantined if a part of the text is in quarantine, and InvalidInput for a
        page or heading that the text does not have.
        """
        if page is not None and heading is not None:
            raise InvalidInput.of("heading", "must be omitted with page")
        if start is not None and not (page is None and heading is None):
            raise InvalidInput.of("start", "must be omitted with page or heading")
        if not 0 <= (start or 0) <= MAX_POSITION or not 1 <= length <= MAX_PART:
            raise InvalidInput.of("start", "must be a position in the text")
        async with self._database.tenant_session(tenant_id) as session:
            await require_released(session, asset_id)
            if page is not None:
                span = await _find_page(session, asset_id, page)
            elif heading is not None:
                span = await _find_section(session, asset_id, heading)
            else:
                span = _Span(start or 0, None)
            size = length if span.stop is None else min(length, max(span.stop - span.start, 0))
            part = await db.fetch_text_part(session, asset_id, span.start, size)
            unasked = page is None and heading is None and start is None
            contents = await db.list_contents(session, asset_id, MAX_CONTENTS) if unasked else ()
            await require_released(session, asset_id)  # again: another transaction may have put it there since
        if part is None:
            raise AssetNotFound("there is no asset with this id")
        if part.text is None or part.total is None:
            raise TextNotReady("the asset has no text yet: see its status")
        if start is not None and start >= max(part.total, 1):
            raise InvalidInput.of("start", f"must be less than {part.total}, the number of characters of the text")
        end = span.start + len(part.text)
        return ReadPart(
            text=part.text,
            start=span.start,
            end=end,
            stop=part.total if span.stop is None else span.stop,
            total=part.total,
            next_start=end if end < part.total else None,
            matches=span.matches,
            contents=contents,
        )

    async def related(
        self, tenant_id: UUID, entry_id: UUID, limit: int = 5, *, include_quarantined: bool = False
    ) -> RelatedResponse:
        """Find related entries: parent, siblings (for a chunk, its neighbours), children, sources, derived, tags.

        `parent` is the given entry's parent, `child` an entry whose parent it is, `source` one that it was derived
        from, `derived` one that was derived from it, and `tag_overlap` one that shares tags with it.
        The groups come in this order: children oldest first, sources as the entry lists them, derived entries newest
        first, then entries that share two or more tags. Each entry appears once, under its first relationship. An
        unknown id has no related entries. Raises InvalidInput for a limit outside 1 to 20, and Quarantined for a
        quarantined entry without `include_quarantined`.
        """
        if not 1 <= limit <= MAX_RELATED:
            raise InvalidInput.of("limit", f"must be between 1 and {MAX_RELATED}")

        async def read() -> tuple[Sequence[db.Relation], Mapping[UUID, Entry]]:
            async with self._database.read_session(tenant_id) as session:
                relations = await db.related_entries(session, entry_id, limit, MAX_COUNTED)
                ids = [entry_id, *(relation.id for relation in relations)]
                return relations, await db.fetch_entries(session, ids)

        relations, found = await self._database.reading(tenant_id, read)
        if not include_quarantined and entry_id in found and found[entry_id].quarantined:
            raise Quarantined(HELD_ENTRY)
        results = [
            RelatedEntry(**same_fields(found[r.id], Entry), relationship=r.relationship, overlap_count=r.overlap_count)
            for r in relations
            if r.id in found
        ]
        kinds = list(dict.fromkeys(item.relationship for item in results))
        return RelatedResponse(results, RelatedMetadata(relations[0].total if relations else 0, kinds))

    async def list_tags(
        self, tenant_id: UUID, *, prefix: str = "", limit: int = 50, cursor: str | None = None, sort: TagSort = "tag"
    ) -> Page[TagCount]:
        """Tags that start with the prefix, each with the number of entries that a search with the tag finds.

        Tags of hidden entries only are omitted. With the sort `tag`, pages neither repeat nor skip a tag, whatever is
        written in the meantime; with `count`, a tag whose count changes can move. Raises InvalidInput.
        """
        check_page(limit, sort, get_args(TagSort))
        if len(prefix) > MAX_TAG or not is_storable(prefix):
            raise InvalidInput.of("prefix", f"must be at most {MAX_TAG} characters, {STORABLE}")
        after = None if cursor is None else _read_place(cursor, sort)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.list_tags(session, prefix=prefix, order=order_of(sort), after=after, limit=limit + 1)
        items = found[:limit]
        following = None if len(found) <= limit else _write_place(items[-1], sort)
        return Page(items, following)


def _find_cut(text: str, first: int, wanted: int) -> int:
    """The start of the first line from `wanted` on, if the line before it is not too long; `text` begins at `first`."""
    if wanted == 0:
        return 0
    newline = text.find("\n", wanted - 1 - first, wanted + LONGEST_LINE - first)
    return min(first + newline + 1 if newline >= 0 else wanted + LONGEST_LINE, first + len(text))


async def _find_page(session: TenantSession, asset_id: UUID, number: int) -> _Span:
    """Where a page is. Raises AssetNotFound and InvalidInput."""
    if not 1 <= number < 2**31:
        raise InvalidInput.of("page", "must be the number of a page, from 1")
    span = await db.find_page(session, asset_id, number)
    if span is None:
        raise AssetNotFound("there is no asset with this id")
    start, end = span
    if start is None:
        raise InvalidInput.of("page", f"must be a page of the document, which has no page {number}")
    return _Span(start, end)


async def _find_section(session: TenantSession, asset_id: UUID, heading: str) -> _Span:
    """Where the section of the first matching heading is. Raises AssetNotFound and InvalidInput."""
    wanted = heading.strip()
    if not wanted or not is_storable(wanted):
        raise InvalidInput.of("heading", f"must be a heading or a part of it, {STORABLE}")
    matches = await db.find_sections(session, asset_id, wanted, MAX_MATCHES)
    if matches:
        (first, end), *_ = matches
        return _Span(first.start, end, [section for section, _ in matches])
    if await db.fetch_text_part(session, asset_id, 0, 0) is None:
        raise AssetNotFound("there is no asset with this id")
    raise InvalidInput.of("heading", "must be a heading of the document, or a part of one; none matches")


def _write_place(last: TagCount, sort: TagSort) -> str:
    return write_cursor(struct.pack(">q", last.count) + last.tag.encode(), sort)


def _read_place(cursor: str, sort: TagSort) -> TagCount:
    place = read_cursor(cursor, sort)
    try:
        return TagCount(read_text(place[8:]), struct.unpack(">q", place[:8])[0])
    except (ValueError, struct.error) as error:
        raise unknown_cursor() from error


LINGER = 2.0
"""Seconds after a read until it is counted; further reads of the entry in this time, such as polling, are not."""

MAX_NOTED = 10_000
"""Reads that wait to be counted; further ones are not counted."""


class AccessCounter:
    """Counts reads in the background, in one statement for each tenant."""

    def __init__(self, database: Database) -> None:
        self._noted: set[tuple[UUID, UUID]] = set()
        self._writer = BackgroundWriter(
            database, self._take, self._write, linger=LINGER, lost="accesses were not counted", unit="entries"
        )
        self.flush, self.close = self._writer.flush, self._writer.close

    def note(self, tenant_id: UUID, entry_id: UUID) -> None:
        """Note a read; returns at once."""
        if len(self._noted) < MAX_NOTED:
            self._noted.add((tenant_id, entry_id))
        self._writer.start()

    def _take(self) -> Mapping[UUID, list[UUID]]:
        by_tenant: dict[UUID, list[UUID]] = defaultdict(list)
        for tenant_id, entry_id in self._noted:
            by_tenant[tenant_id].append(entry_id)
        self._noted.clear()
        return by_tenant

    @staticmethod
    async def _write(session: TenantSession, entry_ids: list[UUID]) -> None:
        await hits.count_accesses(session, dict.fromkeys(entry_ids, 1))
