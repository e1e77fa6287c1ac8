"""Receipts of searches, kept for a day; with them a tenant's admin can see why a caller got certain hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from typing import cast
from uuid import UUID

from app.db.queries.search.receipts import ModelName, RankedEntry, Receipt
from app.knowledge.search.journal.continuation import mark_search
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.ranking.grouping import shown
from app.knowledge.search.results import Ranking
from app.knowledge.vocabulary import Degradation, Leg

KEPT = timedelta(hours=24)
"""How long a receipt is kept, and how long cursors and feedback for its search are accepted."""

ELSEWHERE = frozenset({
    *("query", "query_embedding", "cursor"),
    *("limit", "max_limit", "mode", "fusion", "weights", "rrf_k", "similarity_threshold"),
})  # fmt: skip
"""Fields that are not among a receipt's options: the query itself, and fields whose resolved values it stores."""

OPTIONS = tuple((f.name, f.default) for f in fields(SearchQuery) if f.name not in ELSEWHERE)


@cache
def service_version() -> str:
    """The version of this service."""
    return version("knowledge-search")


def make_receipt(plan: Plan, search_id: UUID, ranking: Ranking, principals: Sequence[str]) -> Receipt:
    """Make the receipt of a search; it has the query's text only if the tenant's settings say so."""
    query, model = plan.query, plan.tenant.model
    chosen = {name: value for name, default in OPTIONS if (value := getattr(query, name)) != default}
    return Receipt(
        mode=query.mode,
        exact=ranking.exact,
        pending=ranking.pending,
        model=ModelName(model.provider, model.name, model.dimensions),
        query=query.query if plan.tenant.settings.keep_query_text else None,
        rrf_k=query.rrf_k,
        fusion=plan.fusion,
        options={"limit": plan.limit, **chosen},
        ranking=rank_entries(ranking, query),
        version=service_version(),
        weights=(plan.weights.semantic, plan.weights.keyword),
        degraded=ranking.degraded,
        fallback=ranking.fallback,
        strong_match=ranking.strong_match,
        estimated_matches=ranking.estimated_matches,
        search_modes_used=ranking.search_modes_used,
        similarity_threshold=plan.threshold,
        asked=mark_search(search_id, query),
        principals=principals,
    )


def rank_entries(ranking: Ranking, query: SearchQuery) -> list[RankedEntry]:
    """The candidates of a ranking as a receipt has them."""
    return [
        RankedEntry(
            c.entry_id,
            c.updated_at,
            c.semantic_rank,
            c.similarity,
            c.keyword_rank,
            c.keyword_score,
            c.score,
            c.rerank_rank,
            c.rerank_score,
            None if query.group_by is None else c.passages,
        )
        for c in shown(ranking.candidates)
    ]


def pinned_ranking(receipt: Receipt) -> Ranking:
    """Restore the ranking of the search, so that later pages neither repeat nor skip a hit."""
    candidates: list[Candidate] = []
    for entry in receipt.ranking:
        candidate = Candidate(
            entry.id,
            entry.updated_at,
            semantic_rank=entry.semantic_rank,
            similarity=entry.similarity,
            keyword_rank=entry.keyword_rank,
            keyword_score=entry.keyword_score,
            score=entry.score,
            rerank_rank=entry.rerank_rank,
            rerank_score=entry.rerank_score,
            passages=entry.passages or 0,
        )
        if entry.passages == 0:
            candidates[-1].further = (*candidates[-1].further, candidate)
        else:
            candidates.append(candidate)
    return Ranking(
        candidates=candidates,
        strong_match=receipt.strong_match,
        fallback=receipt.fallback,
        search_modes_used=cast("Sequence[Leg]", receipt.search_modes_used),
        degraded=cast("Sequence[Degradation]", receipt.degraded),
        exact=receipt.exact,
        pending=receipt.pending,
        estimated_matches=receipt.estimated_matches,
    )
