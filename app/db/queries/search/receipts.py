"""The receipts of searches: what each did, kept for a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


class RankedEntry(NamedTuple):
    """A candidate of a search; the time of its last change is the version that was ranked."""

    id: UUID
    updated_at: datetime
    semantic_rank: int | None
    similarity: float | None
    keyword_rank: int | None
    keyword_score: float | None
    score: float


@dataclass(frozen=True, slots=True)
class Marks:
    """What a search's query and filters can be recognised by, and not read from."""

    query: str
    filters: str


@dataclass(frozen=True, slots=True)
class ModelName:
    """An embedding model."""

    provider: str
    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a search did; in the order in which its admin reads it.

    Attributes:
        query: its text, only where the tenant keeps it.
        options: what was asked besides, as JSON, without what was left at its default.
        ranking: all candidates, best first.
        weights: of the semantic and the keyword leg.
        asked: by what its next pages are recognised; None in receipts of the first releases.
    """

    mode: str
    exact: bool
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
    asked: Marks | None

    @property
    def boost(self) -> Sequence[str]:
        """The boosts that were asked for."""
        boost: Sequence[str] = self.options.get("boost", ())
        return boost

    @property
    def diversity(self) -> float:
        """How much diversity was asked for."""
        diversity: float = self.options.get("diversity", 0.0)
        return diversity


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """One search as it is kept for its tenant's admin and for the next pages."""

    id: UUID
    subject: str
    at: datetime
    result_count: int
    query_time_ms: int
    receipt: Receipt


async def insert_searches(session: TenantSession, searches: Sequence[KeptSearch]) -> None:
    """Keep searches of one tenant."""
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
    """One kept search that is not older than `age`."""
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


async def purge_searches(session: TenantSession, age: timedelta, empty_age: timedelta) -> int:
    """Drop kept searches older than `age`, and without their receipts keep those that found nothing for `empty_age`.

    Returns how many were dropped.
    """
    dropped = await session.execute(SQL["purge_searches"], age=age, empty_age=empty_age)
    await session.execute(SQL["strip_receipts"], age=age)
    return dropped


def encode_receipt(receipt: Receipt) -> str:
    """The receipt as JSON: candidates and models as lists, for there are many candidates."""
    model, asked = receipt.model, receipt.asked
    stored = {
        "version": receipt.version,
        "mode": receipt.mode,
        "fusion": receipt.fusion,
        "weights": receipt.weights,
        "rrf_k": receipt.rrf_k,
        "similarity_threshold": receipt.similarity_threshold,
        "options": receipt.options,
        "asked": asked,
        "model": (model.provider, model.name, model.dimensions),
        "fallback": receipt.fallback,
        "degraded": receipt.degraded,
        "strong_match": receipt.strong_match,
        "search_modes_used": receipt.search_modes_used,
        "exact": receipt.exact,
        "estimated_matches": receipt.estimated_matches,
        "ranking": [(c.id, c.updated_at.timestamp(), *c[2:]) for c in receipt.ranking],
    }
    if receipt.query is not None:
        stored["query"] = receipt.query
    return orjson.dumps(stored).decode()


def decode_receipt(stored: Mapping[str, Any]) -> Receipt:
    """The receipt in stored JSON; one of the first releases does not say all."""
    asked = stored.get("asked")
    fallback = stored["fallback"]
    semantic, keyword = stored["weights"]
    return Receipt(
        mode=stored["mode"],
        exact=stored["exact"],
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
        degraded=stored.get("degraded", ["embedding_unavailable"] if fallback else []),
        fallback=fallback,
        strong_match=stored.get("strong_match", False),
        estimated_matches=stored["estimated_matches"],
        search_modes_used=stored["search_modes_used"],
        similarity_threshold=stored["similarity_threshold"],
        asked=Marks(**asked) if asked else None,
    )
