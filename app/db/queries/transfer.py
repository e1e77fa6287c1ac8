"""Read a whole tenant as JSON lines, and write it from them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.rows import read_rows
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

EXPORTING = "set local timezone='UTC';set local enable_sort=off;"
"""A fixed time zone, and rows in index order, since a sort would need memory for all of them."""


@dataclass(frozen=True, slots=True)
class AssetLine:
    """An asset without its bytes; `line` is a JSON object."""

    id: UUID
    byte_size: int
    line: str


async def stream_assets(session: TenantSession) -> AsyncIterator[AssetLine]:
    """The assets, each fetched on demand."""
    async for rows in session.stream(SQL["assets"], 1):
        yield read_rows(AssetLine, rows)[0]


async def stream_entries(
    session: TenantSession, model_id: int, batch: int, *, with_vectors: bool
) -> AsyncIterator[Sequence[str]]:
    """The lines of entries, `batch` at a time."""
    async for rows in session.stream(SQL["entries"], batch, model_id=model_id, with_vectors=with_vectors):
        yield [row["line"] for row in rows]


async def stream_records(session: TenantSession, table: str, batch: int) -> AsyncIterator[Sequence[str]]:
    """The lines of `saved_searches`, `feedback`, `sources` or `source_items`, `batch` at a time."""
    async for rows in session.stream(SQL[table], batch):
        yield [row["line"] for row in rows]


async def fetch_original_part(session: TenantSession, asset_id: UUID, start: int, length: int) -> str:
    """`length` bytes of an asset from `start` (0 is the first), in base64."""
    part: str = await session.fetch_value(SQL["original_part"], id=asset_id, start=start + 1, length=length)
    return part


async def find_asset(session: TenantSession, line: str) -> tuple[UUID, bool] | None:
    """The existing asset that a line describes, and whether they are identical; locked."""
    row = await session.fetch_row(SQL["same_asset"], line=line)
    return None if row is None else (row["id"], row["identical"])


async def put_asset(session: TenantSession, line: str, original: bytes) -> None:
    """Write an asset from its line. Raises asyncpg.IntegrityConstraintViolationError and asyncpg.DataError."""
    await session.execute(SQL["put_asset"], line=line, original=original)


async def drop_chunks(session: TenantSession, asset_id: UUID) -> None:
    """Remove the chunks of an asset whose lines will follow."""
    await session.execute(SQL["drop_chunks"], id=asset_id)


async def find_entries(session: TenantSession, lines: str) -> dict[UUID, UUID]:
    """For each line, by its id: the existing entry that it describes, if there is one."""
    return await session.fetch_pairs(SQL["same_entries"], lines=lines)


async def update_entries(session: TenantSession, lines: str) -> dict[UUID, bool]:
    """Update existing entries from their lines; return the changed ones, and whether their text changed."""
    return await session.fetch_pairs(SQL["update_entries"], lines=lines)


async def insert_entries(session: TenantSession, lines: str) -> int:
    """Insert entries without their parents and successors. Raises the errors of `put_asset`."""
    return await session.execute(SQL["insert_entries"], lines=lines)


async def link_entries(session: TenantSession, lines: str) -> tuple[Sequence[UUID], int]:
    """Set the parents, successors and sources of entries.

    Returns the entries that changed, and how many parents and successors do not exist.
    """
    row = await session.fetch_row(SQL["link_entries"], lines=lines)
    assert row is not None
    return row["linked"], row["dropped"]


async def set_accesses(session: TenantSession, accesses: Mapping[UUID, int]) -> Sequence[UUID]:
    """Set how often entries were shown; returns those whose count changed."""
    return await session.fetch_column(SQL["set_accesses"], ids=list(accesses), accesses=list(accesses.values()))


async def mark_lacking(session: TenantSession, ids: Sequence[UUID]) -> int:
    """Queue entries without a vector of the tenant's model; returns their number."""
    return await session.execute(SQL["mark_lacking"], ids=list(ids))


async def put_record(session: TenantSession, kind: str, line: str) -> bool:
    """Write a line of kind `saved_search`, `feedback`, `source` or `source_item`; False when it already exists."""
    return await session.execute(SQL[f"put_{kind}"], line=line) > 0


async def list_some_assets(session: TenantSession, limit: int) -> list[UUID]:
    """The first assets by id."""
    return await session.fetch_column(SQL["some_assets"], limit=limit)


async def clear_assets(session: TenantSession, ids: Sequence[UUID]) -> None:
    """Delete assets with their chunks."""
    await session.execute(SQL["clear_assets"], ids=list(ids))


async def clear_entries(session: TenantSession, limit: int) -> list[UUID]:
    """Delete the first entries by id; returns them."""
    return await session.fetch_column(SQL["clear_entries"], limit=limit)
