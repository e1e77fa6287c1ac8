"""Explain a search, so that each score can be recomputed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from app.contract.receipts import Receipt
from app.contract.results import (
    EmbeddingFailure,
    Explanation,
    HitExplanation,
    KeywordExplanation,
    LegExplanations,
    PinnedLeg,
    RerankerExplanation,
    SemanticExplanation,
)
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import quoted_phrases
from app.knowledge.search.ranking import Candidate, cosine_stretch
from app.knowledge.search.reranking import Reranking


def explain(
    plan: Plan,
    legs: Legs,
    page: Sequence[Candidate],
    shown: Collection[UUID],
    reranking: Reranking | None = None,
) -> Explanation:
    """Explain the first page of a search, on which the entries `shown` are hits."""
    query, model, failure = plan.query, plan.tenant.model, legs.failure
    semantic = keyword = scale = None
    if legs.semantic is not None and legs.semantic.compared:
        semantic = SemanticExplanation(legs.semantic.strategy, len(legs.semantic.hits), legs.semantic.passages)
    if (found := legs.keyword) is not None:
        keyword = KeywordExplanation(
            strategy=found.strategy,
            candidates=len(found.hits),
            matches=found.matches,
            phrases=quoted_phrases(query.query),
            corrections=found.replacements.corrections,
            completions=found.replacements.completions,
            compounds=found.replacements.compounds,
            best_score=found.hits[0].value if found.hits else 0.0,
            full_match_score=found.full_match,
        )
        if plan.fusion == "score":
            scale = found.scale or None
    return Explanation(
        mode=query.mode,
        fusion=plan.fusion,
        weights=plan.weights,
        rrf_k=query.rrf_k,
        keyword_scale=scale,
        cosine_stretch=cosine_stretch(model.similarity_threshold) if plan.fusion == "score" else None,
        boost=query.boost,
        diversity=query.diversity,
        similarity_threshold=plan.threshold,
        model=model.info,
        legs=LegExplanations(semantic, keyword),
        embedding_failure=None if failure is None else EmbeddingFailure(failure.attempts),
        reranker=None if reranking is None else _explain_reranker(reranking),
        hits=[_explain_hit(c, rank) for rank, c in enumerate(page, 1) if c.entry_id in shown],
    )


def explain_page(receipt: Receipt, page: Sequence[Candidate], shown: Collection[UUID], offset: int) -> Explanation:
    """Explain a later page from the receipt of its search; values that the receipt lacks are None.

    What was deleted or hidden since is not among the entries `shown`, and not explained.
    """
    semantic, keyword = (PinnedLeg() if leg in receipt.search_modes_used else None for leg in ("semantic", "keyword"))
    return Explanation(
        mode=receipt.mode,
        fusion=receipt.fusion,
        weights=receipt.weights,
        rrf_k=receipt.rrf_k,
        keyword_scale=None,
        cosine_stretch=None,
        boost=receipt.options.get("boost", ()),
        diversity=receipt.options.get("diversity", 0.0),
        similarity_threshold=receipt.similarity_threshold,
        model=receipt.model,
        legs=LegExplanations(semantic, keyword),
        embedding_failure=None,
        reranker=None,
        hits=[_explain_hit(c, rank, is_pinned=True) for rank, c in enumerate(page, offset + 1) if c.entry_id in shown],
    )


def _explain_reranker(reranking: Reranking) -> RerankerExplanation:
    failure = reranking.failure
    return RerankerExplanation(reranking.name, reranking.candidates, None if failure is None else failure.attempts)


def _explain_hit(candidate: Candidate, rank: int, *, is_pinned: bool = False) -> HitExplanation:
    c = candidate
    return HitExplanation(
        id=c.entry_id,
        rank=rank,
        semantic_rank=c.semantic_rank,
        keyword_rank=c.keyword_rank,
        similarity=c.similarity,
        cosine=c.cosine if c.similarity is None else c.similarity,
        estimated_cosine=c.estimated_cosine,
        keyword_score=c.keyword_score,
        semantic_term=None if is_pinned else c.semantic_term,
        keyword_term=None if is_pinned else c.keyword_term,
        boosts=None if is_pinned else c.boosts,
        score=c.score,
        rerank_rank=c.rerank_rank,
        rerank_score=c.rerank_score,
    )
