"""What a person sees of an entry beside its fields, and of an asset's text with the chunks in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.database import Database
from app.db.queries.knowledge import inspection as db
from app.db.session import Row
from app.errors import AssetNotFound, InvalidInput

MAX_NEIGHBOURS = 50
"""Children, and superseded entries, that are shown of one entry."""

MAX_ATTEMPTS = 5
"""Tries after which an entry's vectors are given up, as the statements of embeddings.sql have it."""

MAX_PART = 100_000
MAX_POSITION = 2**31 - 1 - MAX_PART


@dataclass(frozen=True, slots=True)
class EntryVectors:
    """An entry's vectors of one model.

    Attributes:
        is_current: whether searches use the model.
        state: `ready`, `pending` (still to be made), `refused` (the provider was asked often enough), or `none`.
        passages: each passage's first character and the one after its last, in the text that is embedded: title, an
            empty line, content.
    """

    provider: str
    name: str
    dimensions: int
    is_current: bool
    state: str
    attempts: int
    passages: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Connection:
    """An entry that another names or is named by: `parent`, `superseded_by`, `source`, `child` or `supersedes`."""

    relation: str
    id: UUID
    entry_type: str
    title: str | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """What an entry's own fields do not say; `accesses` counts its appearances among the hits of searches."""

    vectors: Sequence[EntryVectors]
    connections: Sequence[Connection]
    accesses: int


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
class TextPart:
    """A part of an asset's text, of `total` characters in all, and the chunks that reach into it."""

    text: str
    start: int
    total: int
    chunks: Sequence[ChunkSpan]


class InspectionService:
    """Reads what lies around an entry or in an asset, in any tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def entry(self, tenant_id: UUID, entry_id: UUID) -> EntryDetails:
        """Vectors, connections and use of an entry; an unknown id has none."""
        async with self._database.tenant_session(tenant_id) as session:
            vectors = await db.fetch_vectors(session, entry_id)
            connections = await db.fetch_connections(session, entry_id, MAX_NEIGHBOURS)
            accesses = await db.count_accesses(session, entry_id)
        return EntryDetails(
            [_vectors_of(row) for row in vectors],
            [Connection(**dict(row)) for row in connections],
            accesses,
        )

    async def text_part(self, tenant_id: UUID, asset_id: UUID, start: int, size: int) -> TextPart | None:
        """`size` characters (1 to 100,000) of an asset's text from `start` on; None while there is no text.

        Raises AssetNotFound, and InvalidInput for a part that no text has.
        """
        if not 0 <= start <= MAX_POSITION or not 1 <= size <= MAX_PART:
            raise InvalidInput.of("start", "must be a position in the text")
        async with self._database.tenant_session(tenant_id) as session:
            row = await db.fetch_text_part(session, asset_id, start, size)
            if row is None:
                raise AssetNotFound("there is no asset with this id")
            if row["part"] is None:
                return None
            chunks = await db.list_chunks(session, asset_id, start, start + len(row["part"]))
        spans = [
            ChunkSpan(
                c["id"], c["chunk_index"] + 1, c["title"], int(c["char_start"]), int(c["char_end"]), c["page"]
            )
            for c in chunks
        ]
        return TextPart(row["part"], start, row["total"], spans)

    async def find_chunk(self, tenant_id: UUID, asset_id: UUID, index: int) -> int:
        """Where in its asset's text a chunk begins; 0 for a chunk that there is not, or that does not say."""
        async with self._database.tenant_session(tenant_id) as session:
            start = await db.find_chunk(session, asset_id, index)
        return start if 0 <= start <= MAX_POSITION else 0


def _vectors_of(row: Row) -> EntryVectors:
    attempts = row["attempts"]
    if attempts is not None:
        state = "pending" if attempts < MAX_ATTEMPTS else "refused"
    else:
        state = "ready" if row["starts"] else "none"
    return EntryVectors(
        row["provider"],
        row["name"],
        row["dimensions"],
        row["is_current"],
        state,
        attempts or 0,
        list(zip(row["starts"], row["ends"], strict=True)),
    )
