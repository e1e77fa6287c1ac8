"""`explain`: everything needed to recompute each score by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.knowledge.fusion import Candidate
from app.knowledge.plan import Legs, Plan
from app.knowledge.query import quoted_phrases


def explain(plan: Plan, legs: Legs, page: Sequence[Candidate]) -> dict[str, Any]:
    """The settings in force, what each leg did, and each hit's ranks, raw scores, fused terms and boosts."""
    query = plan.query
    return {
        "fusion": plan.fusion,
        "weights": {"semantic": plan.weights.semantic, "keyword": plan.weights.keyword},
        "rrf_k": query.rrf_k,
        "similarity_threshold": plan.threshold,
        "model": {
            "provider": plan.tenant.model.provider,
            "name": plan.tenant.model.name,
            "dimensions": plan.tenant.model.dimensions,
        },
        "legs": {
            "semantic": None
            if legs.semantic is None
            else {
                "strategy": legs.semantic.strategy,
                "candidates": len(legs.semantic.hits),
                "passages_in_tenant": plan.tenant.passages,
            },
            "keyword": None
            if legs.keyword is None
            else {
                "strategy": "rarest_words_first",
                "candidates": len(legs.keyword),
                "matches": legs.keyword_matches,
                "phrases": quoted_phrases(query.query),
                "corrections": legs.corrections,
                "best_score": legs.keyword[0].value if legs.keyword else 0.0,
                "full_match_score": legs.best_keyword_score,
            },
        },
        "embedding_failure": None if legs.failure is None else {"attempts": legs.failure.attempts},
        "hits": [
            {
                "id": c.entry_id,
                "rank": place,
                "semantic_rank": c.semantic_rank,
                "keyword_rank": c.keyword_rank,
                "similarity": c.similarity,
                "cosine": c.cosine if c.similarity is None else c.similarity,
                "keyword_score": c.keyword_score,
                "semantic_term": c.semantic_term,
                "keyword_term": c.keyword_term,
                "boosts": c.boosts,
                "score": c.score,
            }
            for place, c in enumerate(page, 1)
        ],
    }
