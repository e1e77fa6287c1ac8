"""The metadata of a search, for its first page and for later pages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.concurrency.stopwatch import Stopwatch
from app.knowledge.search.journal.continuation import PageStart
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.ranking.grouping import shown, ungroup
from app.knowledge.search.ranking.reranking import Reranking
from app.knowledge.search.ranking.strength import has_strong_match
from app.knowledge.search.results import Ranking, Relaxation, SearchMetadata, SearchResult
from app.knowledge.vocabulary import Degradation

log = logging.getLogger("app.knowledge.search")

CUT: Degradation = "ranking_truncated"
"""Only the page that ends a ranking reports it: a caller that pages on cannot reach the entries that are missing."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that the parts of a search took; None for a part that did not run."""

    embedding: float | None = None
    semantic: float | None = None
    keyword: float | None = None
    fusion: float | None = None
    reranking: float | None = None

    @property
    def known(self) -> list[tuple[str, float]]:
        """The parts that ran, each with its seconds."""
        parts = {
            "embedding": self.embedding,
            "semantic": self.semantic,
            "keyword": self.keyword,
            "fusion": self.fusion,
            "reranking": self.reranking,
        }
        return [(part, seconds) for part, seconds in parts.items() if seconds is not None]


def describe_ranking(
    plan: Plan, legs: Legs, candidates: Sequence[Candidate], reranking: Reranking | None
) -> Ranking:
    """Make the ranking of a search that has just run."""
    failure = legs.failure
    degraded: list[Degradation] = [failure.degradation] if failure else []
    if legs.pending and not failure:  # in a fallback, no entry is compared by its vector
        degraded.append("embeddings_pending")
    if reranking is not None and reranking.failure is not None:
        degraded += [reason for reason in (reranking.failure.degradation,) if reason not in degraded]
    if legs.are_cut(plan.wanted):
        degraded.append(CUT)
    return Ranking(
        candidates=candidates,
        strong_match=has_strong_match(legs, shown(candidates[: plan.limit]), plan.tenant.model),
        fallback=failure is not None,
        search_modes_used=legs.searched,
        degraded=degraded,
        exact=legs.exact,
        pending=legs.pending,
        estimated_matches=_estimate_matches(legs, ungroup(candidates)),
    )


def _estimate_matches(legs: Legs, candidates: Sequence[Candidate]) -> int:
    """The larger of the legs' counts: most entries that match by their words also match by their meaning."""
    semantic = legs.semantic.matches if legs.semantic else 0
    words = legs.keyword.matches if legs.keyword else 0
    if legs.keyword is not None and legs.keyword.only_pending:
        semantic, words = semantic + sum(c.pending for c in candidates), 0
    return max(semantic, words, len(candidates))


def make_metadata(
    start: PageStart,
    limit: int,
    ranking: Ranking,
    stopwatch: Stopwatch,
    times: Times,
    suggestions: Sequence[str] = (),
    relaxations: Sequence[Relaxation] = (),
) -> SearchMetadata:
    """Make the metadata of the page that starts at `start`; `stopwatch` is that of the request."""
    total = len(ranking.candidates)
    following = PageStart(start.search_id, start.offset + limit)
    is_last = following.offset >= total
    return SearchMetadata(
        search_id=start.search_id,
        total=total,
        strong_match=ranking.strong_match,
        fallback_mode=ranking.fallback,
        search_modes_used=ranking.search_modes_used,
        degraded=[reason for reason in ranking.degraded if is_last or reason != CUT],
        exact=ranking.exact,
        pending=ranking.pending,
        estimated_matches=ranking.estimated_matches,
        suggestions=suggestions,
        relaxations=relaxations,
        reranked=ranking.reranked,
        next_cursor=None if is_last else following.cursor,
        query_time_ms=milliseconds(stopwatch.seconds),
        waiting_ms=milliseconds(stopwatch.waited),
        embedding_ms=milliseconds(times.embedding),
        semantic_ms=milliseconds(times.semantic),
        keyword_ms=milliseconds(times.keyword),
        fusion_ms=milliseconds(times.fusion),
        reranking_ms=milliseconds(times.reranking),
    )


def milliseconds(seconds: float | None) -> int:
    """Whole milliseconds; 0 for a part that did not run."""
    return round(1000 * (seconds or 0.0))


def log_search(plan: Plan, result: SearchResult) -> None:
    """Log a search; metadata only."""
    metadata = result.metadata
    similarities = [hit.similarity for hit in result.results if hit.similarity is not None]
    log.info(
        "search",
        extra={
            "search_id": str(metadata.search_id),
            "tenant_id": str(plan.tenant.tenant_id),
            "query_length": len(plan.query.query),
            "result_count": len(result.results),
            "top_similarity": round(max(similarities), 4) if similarities else None,
            "embedding_ms": metadata.embedding_ms,
            "semantic_ms": metadata.semantic_ms,
            "keyword_ms": metadata.keyword_ms,
            "fusion_ms": metadata.fusion_ms,
            "reranking_ms": metadata.reranking_ms,
            "query_time_ms": metadata.query_time_ms,
            "waiting_ms": metadata.waiting_ms,
        },
    )
