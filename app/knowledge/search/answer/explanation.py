"""`explain`: everything needed to recompute each score by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.knowledge.search.plan import Legs, Plan
from app.knowledge.search.query import quoted_phrases
from app.knowledge.search.ranking.fusion import Candidate, keyword_scale


def explain(plan: Plan, legs: Legs, page: Sequence[Candidate]) -> dict[str, Any]:
    """The settings in force, what each leg did, and each hit's ranks, raw scores, fused terms and boosts.

    A term is its leg's weight times 1/(rrf_k + rank), or in score fusion times the cosine (at least 0) and
    keyword_score/keyword_scale; a score is the sum of the terms, times the boosts. Diversity reorders, no more.
    """
    query = plan.query
    scale = keyword_scale((hit.value for hit in legs.keyword or ()), legs.best_keyword_score)
    return {
        "mode": query.mode,
        "fusion": plan.fusion,
        "weights": {"semantic": plan.weights.semantic, "keyword": plan.weights.keyword},
        "rrf_k": query.rrf_k,
        "keyword_scale": scale if scale and plan.fusion == "score" else None,
        "boost": list(query.boost),
        "diversity": query.diversity,
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
                "strategy": "whole_identifier" if legs.whole else "rarest_words_first",
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


def explain_page(receipt: Mapping[str, Any], page: Sequence[Candidate], offset: int) -> dict[str, Any]:
    """`explain` for a page of a pinned ranking, from its search's receipt.

    What a receipt does not hold is null: the fused terms, the boosts, and all of a leg but that it ran.
    """
    provider, name, dimensions = receipt["model"]
    semantic, keyword = receipt["weights"]
    options = receipt["options"]
    return {
        "mode": receipt["mode"],
        "fusion": receipt["fusion"],
        "weights": {"semantic": semantic, "keyword": keyword},
        "rrf_k": receipt["rrf_k"],
        "keyword_scale": None,
        "boost": options.get("boost", []),
        "diversity": options.get("diversity", 0.0),
        "similarity_threshold": receipt["similarity_threshold"],
        "model": {"provider": provider, "name": name, "dimensions": dimensions},
        "legs": {
            leg: {"strategy": None} if leg in receipt["search_modes_used"] else None
            for leg in ("semantic", "keyword")
        },
        "embedding_failure": None,
        "hits": [
            {
                "id": c.entry_id,
                "rank": place,
                "semantic_rank": c.semantic_rank,
                "keyword_rank": c.keyword_rank,
                "similarity": c.similarity,
                "cosine": c.similarity,
                "keyword_score": c.keyword_score,
                "semantic_term": None,
                "keyword_term": None,
                "boosts": None,
                "score": c.score,
            }
            for place, c in enumerate(page, offset + 1)
        ],
    }
