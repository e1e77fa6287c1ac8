"""A whole tenant, read as lines of JSON and written from them, as stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.rows import read_rows
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

EXPORTING = "set local timezone='UTC';set local enable_sort=off;"
"""One form of times; and rows in the order of their index, since a sort would hold all of them."""


@dataclass(frozen=True, slots=True)
class AssetLine:
    """An asset without its bytes; `line` is a JSON object."""

    id: UUID
    byte_size: int
    line: str


async def stream_assets(session: TenantSession) -> AsyncIterator[AssetLine]:
    """The assets, each when it is asked for."""
    async for rows in session.stream(SQL["assets"], 1):
        yield read_rows(AssetLine, rows)[0]


async def stream_entries(
    session: TenantSession, model_id: int, batch: int, *, with_vectors: bool
) -> AsyncIterator[Sequence[str]]:
    """The lines of entries, `batch` at a time."""
    async for rows in session.stream(SQL["entries"], batch, model_id=model_id, with_vectors=with_vectors):
        yield [row["line"] for row in rows]


async def stream_records(session: TenantSession, table: str, batch: int) -> AsyncIterator[Sequence[str]]:
    """The lines of `saved_searches` or `feedback`, `batch` at a time."""
    async for rows in session.stream(SQL[table], batch):
        yield [row["line"] for row in rows]


async def fetch_original_part(session: TenantSession, asset_id: UUID, start: int, length: int) -> str:
    """`length` bytes of an asset from `start` (0 is the first), in base64."""
    part: str = await session.fetch_value(SQL["original_part"], id=asset_id, start=start + 1, length=length)
    return part


async def find_asset(session: TenantSession, line: str) -> tuple[UUID, bool] | None:
    """The asset here that a line stands for, and whether it is the same in all; locked."""
    row = await session.fetch_row(SQL["same_asset"], line=line)
    return None if row is None else (row["id"], row["identical"])


async def put_asset(session: TenantSession, line: str, original: bytes) -> None:
    """Write an asset as its line says. Raises asyncpg.IntegrityConstraintViolationError, asyncpg.DataError."""
    await session.execute(SQL["put_asset"], line=line, original=original)


async def drop_chunks(session: TenantSession, asset_id: UUID) -> None:
    """Remove the chunks of an asset whose lines are to come."""
    await session.execute(SQL["drop_chunks"], id=asset_id)


async def find_entries(session: TenantSession, lines: str) -> dict[UUID, UUID]:
    """For each line, by its id: the entry here that it stands for, where there is one."""
    rows = await session.fetch(SQL["same_entries"], lines=lines)
    return {row["id"]: row["present"] for row in rows}


async def update_entries(session: TenantSession, lines: str) -> dict[UUID, bool]:
    """Bring entries that are here up to their lines; returns those that changed, and whether their text did."""
    rows = await session.fetch(SQL["update_entries"], lines=lines)
    return {row["id"]: row["text_changed"] for row in rows}


async def insert_entries(session: TenantSession, lines: str) -> int:
    """Add entries without their parents and successors. Raises as `put_asset` does."""
    return await session.execute(SQL["insert_entries"], lines=lines)


async def link_entries(session: TenantSession, lines: str) -> tuple[Sequence[UUID], int]:
    """Give entries their parents, successors and sources.

    Returns the entries that changed, and how many parents and successors are not here.
    """
    row = await session.fetch_row(SQL["link_entries"], lines=lines)
    assert row is not None
    return row["linked"], row["dropped"]


async def set_accesses(session: TenantSession, accesses: Mapping[UUID, int]) -> Sequence[UUID]:
    """How often entries were shown; returns those of which something else was known."""
    rows = await session.fetch(
        SQL["set_accesses"],
        ids=list(accesses),
        accesses=list(accesses.values()),
    )
    return [row["entry_id"] for row in rows]


async def mark_lacking(session: TenantSession, ids: Sequence[UUID]) -> int:
    """Let entries without a vector of the tenant's model wait for it; returns how many those are."""
    return await session.execute(SQL["mark_lacking"], ids=list(ids))


async def put_record(session: TenantSession, kind: str, line: str) -> bool:
    """Write a line of kind `saved_search` or `feedback`; False when it is there."""
    return await session.execute(SQL[f"put_{kind}"], line=line) > 0
