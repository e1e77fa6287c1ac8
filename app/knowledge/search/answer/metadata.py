"""The metadata of a search, for its first page and for later pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.concurrency.stopwatch import Stopwatch
from app.knowledge.search.journal.continuation import PageStart
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.ranking.strength import has_strong_match
from app.knowledge.search.results import Ranking, Relaxation, SearchMetadata


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that the parts of a search took; None for a part that did not run."""

    embedding: float | None = None
    semantic: float | None = None
    keyword: float | None = None
    fusion: float | None = None

    @property
    def known(self) -> list[tuple[str, float]]:
        """The parts that ran, each with its seconds."""
        parts = {
            "embedding": self.embedding,
            "semantic": self.semantic,
            "keyword": self.keyword,
            "fusion": self.fusion,
        }
        return [(part, seconds) for part, seconds in parts.items() if seconds is not None]


def describe_ranking(plan: Plan, legs: Legs, candidates: Sequence[Candidate]) -> Ranking:
    """Make the ranking of a search that has just run."""
    failure = legs.failure
    matches = legs.keyword.matches if legs.keyword else 0
    return Ranking(
        candidates=candidates,
        strong_match=has_strong_match(legs, candidates[: plan.limit], plan.tenant.model),
        fallback=failure is not None,
        search_modes_used=legs.searched,
        degraded=[failure.degradation] if failure else [],
        exact=legs.semantic is None or legs.semantic.exact,
        estimated_matches=max(matches, len(candidates)),
    )


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
    return SearchMetadata(
        search_id=start.search_id,
        total=total,
        strong_match=ranking.strong_match,
        fallback_mode=ranking.fallback,
        search_modes_used=ranking.search_modes_used,
        degraded=ranking.degraded,
        exact=ranking.exact,
        estimated_matches=ranking.estimated_matches,
        suggestions=suggestions,
        relaxations=relaxations,
        next_cursor=following.cursor if following.offset < total else None,
        query_time_ms=milliseconds(stopwatch.seconds),
        waiting_ms=milliseconds(stopwatch.waited),
        embedding_ms=milliseconds(times.embedding),
        semantic_ms=milliseconds(times.semantic),
        keyword_ms=milliseconds(times.keyword),
        fusion_ms=milliseconds(times.fusion),
    )


def milliseconds(seconds: float | None) -> int:
    """Whole milliseconds; 0 for a part that did not run."""
    return round(1000 * (seconds or 0.0))
