"""Receipts of searches, kept for a day, the changes since a receipt, and feedback of callers on hits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, get_type_hints
from uuid import UUID

import numpy as np
import orjson

from app.contract.models import ModelInfo
from app.contract.receipts import DislikedEntry, EmptySearch, RankedEntry, Receipt, SearchLine, SearchReceipt
from app.contract.search import Weights
from app.db.rows import Position, beyond
from app.db.session import Row, TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class Marks:
    """Fingerprints by which a search's query and filters can be recognised but not read."""

    query: str
    filters: str


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """A search as stored for the tenant's admins and for the next pages: its receipt, and what no caller sees.

    Attributes:
        asked: the fingerprints by which the next pages are recognised; with its salt, the hash would confirm a guess of
            the query.
        principals: of the caller at that time; None in a receipt of a version of the service that did not note them.
    """

    receipt: SearchReceipt
    asked: Marks
    principals: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class NewSearch(KeptSearch):
    """A search to be stored, whose receipt has no ranking yet.

    Attributes:
        ranking: the candidates as `pack_ranking` packs them. A RankedEntry for each of the hundreds would take longer
            than all the rest of a record.
    """

    ranking: bytes = b""


@dataclass(frozen=True, slots=True)
class RecentRequest:
    """A query that callers searched for, with the parameters that its receipt has as they were asked."""

    query: str
    mode: str
    rrf_k: int
    options: Mapping[str, Any]


async def insert_searches(session: TenantSession, searches: Sequence[NewSearch]) -> None:
    """Store searches of one tenant."""
    await session.execute(
        SQL["insert_searches"],
        ids=[s.receipt.search_id for s in searches],
        subjects=[s.receipt.subject for s in searches],
        ats=[s.receipt.at for s in searches],
        fallbacks=[s.receipt.fallback for s in searches],
        result_counts=[s.receipt.result_count for s in searches],
        query_times=[s.receipt.query_time_ms for s in searches],
        receipts=[encode_search(s) for s in searches],
        rankings=[s.ranking for s in searches],
    )


async def fetch_search(session: TenantSession, search_id: UUID, age: timedelta) -> KeptSearch | None:
    """A stored search that is not older than `age`."""
    row = await session.fetch_row(SQL["fetch_search"], id=search_id, age=age)
    return None if row is None else decode_search(row)


async def list_searches(
    session: TenantSession, age: timedelta, subject: str | None, only_empty: bool, before: Position | None, limit: int
) -> list[SearchLine]:
    """Searches that are not older than `age`, newest first."""
    return await session.fetch_as(
        SearchLine, SQL["list_searches"], age=age, subject=subject, only_empty=only_empty, **beyond(before), limit=limit
    )


async def recent_requests(session: TenantSession, age: timedelta, limit: int) -> list[RecentRequest]:
    """The latest queries that are not older than `age`, each once; none if the tenant keeps no query texts."""
    return await session.fetch_as(RecentRequest, SQL["recent_requests"], age=age, limit=limit)


async def purge_searches(session: TenantSession, age: timedelta, empty_age: timedelta) -> int:
    """Delete searches older than `age`; those without results are kept for `empty_age`, without receipts.

    Returns how many were deleted.
    """
    dropped = await session.execute(SQL["purge_searches"], age=age, empty_age=empty_age)
    await session.execute(SQL["strip_receipts"], age=age)
    return dropped


RANKS = tuple(field.name for field in fields(RankedEntry) if field.name not in ("id", "updated_at", "passages"))
ranks_of = attrgetter(*RANKS)
"""The place and the scores of a candidate in each leg."""

WHOLE = tuple(name for name, kind in get_type_hints(RankedEntry).items() if kind in (int, int | None))
"""Fields with whole numbers, all of them below 2**24, so that single precision has them exactly."""

FOUND = (*RANKS, "passages")
RANKED = np.dtype(
    [("id", "V16"), ("updated_at", "<f8"), *((name, "<f4" if name in WHOLE else "<f8") for name in FOUND)]
)
"""A candidate in a packed ranking: its id, the time of its version in seconds, and NaN for what it does not have."""


def pack_ranking(ids: Sequence[UUID], columns: Mapping[str, Sequence[Any]]) -> bytes:
    """The candidates with these ids as they are stored; `columns` has the values of the other fields of RANKED.

    As JSON, they took seven times as much of the database's time, and more room.
    """
    packed = np.full(len(ids), np.nan, RANKED)
    packed["id"] = np.frombuffer(b"".join([entry_id.bytes for entry_id in ids]), "V16")
    for name, values in columns.items():
        packed[name] = np.array(values, float)
    return packed.tobytes()


def unpack_ranking(packed: bytes) -> list[RankedEntry]:
    """The candidates of a packed ranking."""
    found = np.frombuffer(packed, RANKED)
    columns = []
    for name in FOUND:
        values = found[name].tolist()
        kind = int if name in WHOLE else float
        columns.append([None if math.isnan(value) else kind(value) for value in values])
    ids = [UUID(bytes=entry_id) for entry_id in found["id"].tolist()]
    times = [datetime.fromtimestamp(at, UTC) for at in found["updated_at"].tolist()]
    return [RankedEntry(*values) for values in zip(ids, times, *columns, strict=True)]


PLAIN = tuple(f.name for f in fields(Receipt) if f.name not in ("query", "model", "weights", "ranking"))
"""Fields of a receipt that its JSON has as they are; it has the query only if the tenant keeps queries."""


def encode_search(search: NewSearch) -> str:
    """The receipt without its candidates as JSON."""
    receipt = search.receipt
    stored = {
        **{name: getattr(receipt, name) for name in PLAIN},
        "weights": (receipt.weights.semantic, receipt.weights.keyword),
        "asked": search.asked,
        "principals": search.principals,
        "model": (receipt.model.provider, receipt.model.name, receipt.model.dimensions),
    }
    if receipt.query is not None:
        stored["query"] = receipt.query
    return orjson.dumps(stored).decode()


def decode_search(row: Row) -> KeptSearch:
    """The search of a row with its stored JSON."""
    stored = row["receipt"]
    receipt = SearchReceipt(
        search_id=row["id"],
        **{name: row[name] for name in ("subject", "at", "result_count", "query_time_ms")},
        **{name: stored[name] for name in PLAIN},
        query=stored.get("query"),
        model=ModelInfo(*stored["model"]),
        weights=Weights(*stored["weights"]),
        ranking=unpack_ranking(row["ranking"]),
    )
    return KeptSearch(receipt, Marks(**stored["asked"]), stored.get("principals"))


@dataclass(frozen=True, slots=True)
class Trace:
    """The present state of an entry that a search ranked.

    Attributes:
        exists: whether there is still an entry with the id.
        unchanged: whether it is the version that was ranked.
        kept: whether this is among the entry's former versions.
    """

    id: UUID
    exists: bool
    unchanged: bool
    kept: bool


async def changed_settings(session: TenantSession, at: datetime) -> list[str]:
    """The names of settings that have changed since a time."""
    return await session.fetch_column(SQL["changed_settings"], at=at)


async def trace(session: TenantSession, ranked: Sequence[RankedEntry]) -> dict[UUID, Trace]:
    """The present state of these entries."""
    found = await session.fetch_as(
        Trace, SQL["traces"], ids=[e.id for e in ranked], times=[e.updated_at for e in ranked]
    )
    return {each.id: each for each in found}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an entry is relevant to a query, which is in lowercase."""

    query: str
    entry_id: UUID
    relevant: bool


async def put_feedback(
    session: TenantSession, search_id: UUID, entry_id: UUID, subject: str, relevant: bool, query: str | None
) -> datetime:
    """Store a caller's feedback on a hit, replacing earlier feedback. Raises asyncpg.ForeignKeyViolationError."""
    at: datetime = await session.fetch_value(
        SQL["put"], search_id=search_id, entry_id=entry_id, subject=subject, relevant=relevant, query=query
    )
    return at


async def erase_queries(session: TenantSession) -> None:
    """Delete the queries in searches and feedback, unless the tenant keeps them."""
    await session.execute(SQL["erase_queries"])


async def count_feedback(session: TenantSession, age: timedelta) -> Row:
    """Hits marked `relevant` and `not_relevant`, and searches `without_results`, not older than `age`."""
    (counts,) = await session.fetch(SQL["counts"], age=age)
    return counts


async def list_empty_searches(session: TenantSession, age: timedelta, limit: int) -> list[EmptySearch]:
    """Queries without results, the most frequent first."""
    return await session.fetch_as(EmptySearch, SQL["empty_searches"], age=age, limit=limit)


async def list_disliked(session: TenantSession, age: timedelta, limit: int) -> list[DislikedEntry]:
    """Entries marked as not relevant, by number of callers, each with up to five of the queries."""
    return await session.fetch_as(DislikedEntry, SQL["disliked"], age=age, limit=limit)


async def list_judgements(session: TenantSession) -> list[Judgement]:
    """The majority judgement of callers on entries as answers to queries."""
    return await session.fetch_as(Judgement, SQL["judgements"])
