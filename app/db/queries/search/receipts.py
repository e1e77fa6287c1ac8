"""The receipts of searches: a record of each search, kept for a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from app.contract.results import ModelName
from app.db.rows import Position
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


class RankedEntry(NamedTuple):
    """A candidate of a search; the time of its last change identifies the version that was ranked.

    `passages`, only in a search grouped by asset: the number of candidates of the asset, on the best of them. The best
    others follow, with 0.
    """

    id: UUID
    updated_at: datetime
    semantic_rank: int | None
    similarity: float | None
    keyword_rank: int | None
    keyword_score: float | None
    score: float
    rerank_rank: int | None = None
    rerank_score: float | None = None
    passages: int | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Fingerprints by which a search's query and filters can be recognised but not read."""

    query: str
    filters: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The record of a search, in the order in which admins read it.

    Attributes:
        query: the text of the query, only if the tenant keeps it.
        options: the other parameters of the request, as JSON, without those that have their default.
        ranking: all candidates, best first.
        weights: of the semantic and the keyword leg.
        asked: the fingerprints by which the next pages are recognised.
        principals: of the caller at that time; None in a receipt of a version of the service that did not note them.
    """

    mode: str
    exact: bool
    pending: int
    model: ModelName
    query: str | None
    rrf_k: int
    fusion: str
    options: Mapping[str, Any]
    ranking: Sequence[RankedEntry]
    version: str
    weights: tuple[float, float]
    degraded: Sequence[str]
    fallback: bool
    strong_match: bool
    estimated_matches: int
    search_modes_used: Sequence[str]
    similarity_threshold: float
    asked: Marks
    principals: Sequence[str] | None = None

    @property
    def boost(self) -> Sequence[str]:
        """The requested boosts."""
        boost: Sequence[str] = self.options.get("boost", ())
        return boost

    @property
    def diversity(self) -> float:
        """The requested diversity."""
        diversity: float = self.options.get("diversity", 0.0)
        return diversity


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """A search as stored for the tenant's admins and for the next pages."""

    id: UUID
    subject: str
    at: datetime
    result_count: int
    query_time_ms: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class SearchLine:
    """A search in a list: who searched, when, and with what result; `query` has its first 200 characters, if kept."""

    id: UUID
    subject: str
    at: datetime
    result_count: int
    query_time_ms: int
    fallback: bool
    mode: str
    query: str | None


@dataclass(frozen=True, slots=True)
class RecentRequest:
    """A query that callers searched for, with the parameters that its receipt has as they were asked."""

    query: str
    mode: str
    rrf_k: int
    options: Mapping[str, Any]


async def insert_searches(session: TenantSession, searches: Sequence[KeptSearch]) -> None:
    """Store searches of one tenant."""
    await session.execute(
        SQL["insert_searches"],
        ids=[s.id for s in searches],
        subjects=[s.subject for s in searches],
        ats=[s.at for s in searches],
        fallbacks=[s.receipt.fallback for s in searches],
        result_counts=[s.result_count for s in searches],
        query_times=[s.query_time_ms for s in searches],
        receipts=[encode_receipt(s.receipt) for s in searches],
    )


async def fetch_search(session: TenantSession, search_id: UUID, age: timedelta) -> KeptSearch | None:
    """A stored search that is not older than `age`."""
    row = await session.fetch_row(SQL["fetch_search"], id=search_id, age=age)
    if row is None:
        return None
    return KeptSearch(
        row["id"],
        row["subject"],
        row["at"],
        row["result_count"],
        row["query_time_ms"],
        decode_receipt(row["receipt"]),
    )


async def list_searches(
    session: TenantSession,
    age: timedelta,
    subject: str | None,
    only_empty: bool,
    before: Position | None,
    limit: int,
) -> list[SearchLine]:
    """Searches that are not older than `age`, newest first."""
    at, last_id = before or (None, None)
    return await session.fetch_as(
        SearchLine,
        SQL["list_searches"],
        age=age,
        subject=subject,
        only_empty=only_empty,
        before_at=at,
        before_id=last_id,
        limit=limit,
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


def encode_receipt(receipt: Receipt) -> str:
    """The receipt as JSON, with candidates and models as lists, since there are many candidates."""
    model = receipt.model
    stored = {
        "version": receipt.version,
        "mode": receipt.mode,
        "fusion": receipt.fusion,
        "weights": receipt.weights,
        "rrf_k": receipt.rrf_k,
        "similarity_threshold": receipt.similarity_threshold,
        "options": receipt.options,
        "asked": receipt.asked,
        "principals": receipt.principals,
        "model": (model.provider, model.name, model.dimensions),
        "fallback": receipt.fallback,
        "degraded": receipt.degraded,
        "strong_match": receipt.strong_match,
        "search_modes_used": receipt.search_modes_used,
        "exact": receipt.exact,
        "pending": receipt.pending,
        "estimated_matches": receipt.estimated_matches,
        "ranking": [
            (c.id, c.updated_at.timestamp(), *(c[2:] if c.passages is not None else c[2:-1]))
            for c in receipt.ranking
        ],
    }
    if receipt.query is not None:
        stored["query"] = receipt.query
    return orjson.dumps(stored).decode()


def decode_receipt(stored: Mapping[str, Any]) -> Receipt:
    """The receipt from stored JSON."""
    semantic, keyword = stored["weights"]
    return Receipt(
        mode=stored["mode"],
        exact=stored["exact"],
        pending=stored["pending"],
        model=ModelName(*stored["model"]),
        query=stored.get("query"),
        rrf_k=stored["rrf_k"],
        fusion=stored["fusion"],
        options=stored["options"],
        ranking=[
            RankedEntry(UUID(entry_id), datetime.fromtimestamp(updated_at, UTC), *found)
            for entry_id, updated_at, *found in stored["ranking"]
        ],
        version=stored["version"],
        weights=(semantic, keyword),
        degraded=stored["degraded"],
        fallback=stored["fallback"],
        strong_match=stored["strong_match"],
        estimated_matches=stored["estimated_matches"],
        search_modes_used=stored["search_modes_used"],
        similarity_threshold=stored["similarity_threshold"],
        asked=Marks(**stored["asked"]),
        principals=stored.get("principals"),
    )
