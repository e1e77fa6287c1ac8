"""What a search did, kept for a day for its tenant's admin: "why did the agent see this" has an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Any

from app.db.session import Row
from app.knowledge.search.journal.continuation import mark_search
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import SearchQuery
from app.knowledge.search.ranking.fusion import Candidate
from app.knowledge.search.results import SearchResult

KEPT = timedelta(hours=24)
"""How long a receipt is kept, a ranking can be continued, and feedback be given."""

RANKED = ("id", "updated_at", "semantic_rank", "similarity", "keyword_rank", "keyword_score", "score")
"""What a receipt holds of each candidate, in this order; the time of its last change is the version that was ranked."""

ELSEWHERE = frozenset({
    "query", "query_embedding", "cursor", "max_limit", "mode", "fusion", "weights", "rrf_k", "similarity_threshold",
})  # fmt: skip
"""Parts of a request that are, or stand for, what was asked; and those that a receipt has as they were settled."""

OPTIONS = tuple((f.name, f.default) for f in fields(SearchQuery) if f.name not in {*ELSEWHERE, "limit"})


@cache
def service_version() -> str:
    """The version of this service."""
    return version("knowledge-search")


def make_receipt(plan: Plan, result: SearchResult, ranking: Sequence[Candidate]) -> dict[str, Any]:
    """The receipt as it is stored; the query's text only where the tenant keeps it."""
    metadata, query, model = result.metadata, plan.query, plan.tenant.model
    receipt: dict[str, Any] = {
        "version": service_version(),
        "mode": query.mode,
        "fusion": plan.fusion,
        "weights": [plan.weights.semantic, plan.weights.keyword],
        "rrf_k": query.rrf_k,
        "similarity_threshold": plan.threshold,
        "options": {
            "limit": plan.limit,
            **{name: value for name, default in OPTIONS if (value := getattr(query, name)) != default},
        },
        "asked": mark_search(metadata.search_id, query),
        "model": [model.provider, model.name, model.dimensions],
        "fallback": metadata.fallback_mode,
        "degraded": metadata.degraded,
        "strong_match": metadata.strong_match,
        "search_modes_used": metadata.search_modes_used,
        "exact": metadata.exact,
        "estimated_matches": metadata.estimated_matches,
        "ranking": [
            [
                c.entry_id,
                c.updated_at.timestamp(),
                c.semantic_rank,
                c.similarity,
                c.keyword_rank,
                c.keyword_score,
                c.score,
            ]
            for c in ranking
        ],
    }
    if plan.tenant.settings.keep_query_text:
        receipt["query"] = query.query
    return receipt


def show_receipt(row: Row) -> dict[str, Any]:
    """A stored receipt as the tenant's admin reads it, best candidate first."""
    receipt = {**row["receipt"]}
    receipt.pop("asked", None)  # with its salt beside it, it would tell whether somebody guessed the query
    receipt["weights"] = dict(zip(("semantic", "keyword"), receipt["weights"], strict=True))
    receipt["model"] = dict(zip(("provider", "name", "dimensions"), receipt["model"], strict=True))
    receipt["ranking"] = [
        {
            **dict(zip(RANKED, candidate, strict=True)),
            "updated_at": datetime.fromtimestamp(candidate[1], UTC),
        }
        for candidate in receipt["ranking"]
    ]
    return {
        "search_id": row["id"],
        "subject": row["subject"],
        "at": row["at"],
        "result_count": row["result_count"],
        "query_time_ms": row["query_time_ms"],
        **receipt,
    }
