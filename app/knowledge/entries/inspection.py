"""Details of an entry that are not in its fields, and the text of an asset with its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import inspection as db
from app.db.queries.knowledge.inspection import ChunkSpan, Connection, EntryVectors
from app.errors import AssetNotFound, InvalidInput

MAX_NEIGHBOURS = 50
"""Most children, and most superseded entries, that are shown for one entry."""

MAX_PART = 100_000
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


class InspectionService:
    """Reads details of entries and assets of any tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def entry(self, tenant_id: UUID, entry_id: UUID) -> EntryDetails:
        """Vectors, connections and use of an entry; for an unknown id, all are empty."""
        async with self._database.tenant_session(tenant_id) as session:
            return EntryDetails(
                await db.fetch_vectors(session, entry_id),
                await db.fetch_connections(session, entry_id, MAX_NEIGHBOURS),
                await db.count_accesses(session, entry_id),
            )

    async def text_part(self, tenant_id: UUID, asset_id: UUID, start: int, size: int) -> TextPart | None:
        """Read `size` characters (1 to 100,000) of an asset's text from `start`; None while there is no text.

        Raises AssetNotFound, and InvalidInput for a part that is out of range for every text.
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
        return TextPart(part.text, start, part.total or 0, chunks)

    async def find_chunk(self, tenant_id: UUID, asset_id: UUID, index: int) -> int:
        """Where a chunk starts in its asset's text; 0 if the chunk does not exist or its start is unknown."""
        async with self._database.tenant_session(tenant_id) as session:
            start = await db.find_chunk(session, asset_id, index)
        return start if 0 <= start <= MAX_POSITION else 0
