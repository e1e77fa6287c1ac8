"""Explain a search, so that each score can be recomputed, and why an entry is not among its results."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any
from uuid import UUID

from app.concurrency.stopwatch import Stopwatch
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
from app.contract.search import Reason, WhyNot
from app.contract.validation import same_fields
from app.db.queries.hits import Verdict
from app.knowledge.search.answer.page import milliseconds
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.plan import Plan
from app.knowledge.search.query import quoted_phrases
from app.knowledge.search.ranking import FURTHER, Candidate, cosine_stretch, shown
from app.knowledge.search.reranking import Reranking


def explain(
    plan: Plan, legs: Legs, page: Sequence[Candidate], shown: Collection[UUID], reranking: Reranking | None = None
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
            matches=found.total,
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
        **same_fields(receipt, Explanation),
        keyword_scale=None,
        cosine_stretch=None,
        boost=receipt.options.get("boost", ()),
        diversity=receipt.options.get("diversity", 0.0),
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
    copied: dict[str, Any] = {n: None if is_pinned and n in FUSED else getattr(c, n) for n in COPIED}
    return HitExplanation(id=c.entry_id, rank=rank, cosine=c.cosine if c.similarity is None else c.similarity, **copied)


FUSED = ("semantic_term", "keyword_term", "boosts")
COPIED = tuple(f.name for f in fields(HitExplanation) if f.name not in ("id", "rank", "cosine"))
"""What an explanation has of a candidate; later pages lack what the receipt does not have."""


def judge(
    entry_id: UUID, plan: Plan, legs: Legs, ranking: Sequence[Candidate], verdict: Verdict | None, stopwatch: Stopwatch
) -> WhyNot:
    """Derive the reasons from the legs, the ranking and the facts about the entry."""
    rank = next((p for p, c in enumerate(ranking, 1) if entry_id in (m.entry_id for m in (c, *c.further))), None)
    in_results = rank is not None and rank <= plan.limit
    if rank is not None and in_results:
        reasons = _behind_others(entry_id, ranking[rank - 1])
        in_results = not reasons
    elif rank is not None:
        detail = f"ranked {rank} of {len(ranking)} candidates; the page ends at {plan.limit}"
        reasons = [Reason("cut", detail), *_reranker_reason(ranking, rank)]
    else:
        reasons = _find_reasons(plan, legs, verdict)
    times = milliseconds(stopwatch.seconds), milliseconds(stopwatch.waited)
    return WhyNot(entry_id, in_results, rank, reasons, *times)


def _reranker_reason(ranking: Sequence[Candidate], rank: int) -> list[Reason]:
    """The rank that the reranker gave to the candidate, if it compared any."""
    compared = sum(c.rerank_rank is not None for c in ranking)
    placed = ranking[rank - 1].rerank_rank
    if not compared:
        return []
    if placed is None:
        return [Reason("reranker", f"not among the {compared} candidates that the reranker compared")]
    return [Reason("reranker", f"the reranker ranked it {placed} of {compared}")]


def _behind_others(entry_id: UUID, best: Candidate) -> list[Reason]:
    """The reason why an entry is not among the passages that the hit of its asset has."""
    if entry_id in (c.entry_id for c in shown([best])):
        return []
    place = next(place for place, c in enumerate(best.further, 2) if c.entry_id == entry_id)
    detail = f"passage {place} of {best.passages} of its asset; a hit has the best {1 + FURTHER}"
    return [Reason("cut", detail)]


def _find_reasons(plan: Plan, legs: Legs, verdict: Verdict | None) -> list[Reason]:
    """The reasons why the entry is not a candidate."""
    if verdict is None:
        return [Reason("entry", "there is no entry with this id")]
    reasons: list[Reason] = []
    if not verdict.unexpired:
        reasons.append(Reason("filter", "expired"))
    if not verdict.current:
        reasons.append(Reason("filter", "superseded by another entry; see include_superseded"))
    if not verdict.released:
        reasons.append(Reason("filter", "quarantined because of its flags, until an admin releases it"))
    reasons += [Reason("filter", f"{name} does not match") for name in verdict.failed]
    if not reasons and verdict.repeated:
        reasons = [Reason("duplicate", "another asset with the same bytes has this text and is found instead")]
    if not reasons:
        reasons = [_semantic_reason(plan, legs, verdict), _keyword_reason(plan, legs, verdict)]
    return reasons


def _semantic_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.failure is not None:
        return Reason("semantic", "the embedding provider was unavailable; only the keyword leg ran")
    if legs.semantic is None:
        return Reason("semantic", f"not searched in mode {plan.query.mode}")
    cosine = verdict.cosine
    if cosine is None:
        return Reason("semantic", "the entry has no vector of the tenant's model yet")
    if cosine < plan.threshold:
        return Reason("semantic", f"similarity {cosine:.4f} is below the threshold {plan.threshold:.4f}")
    hits = legs.semantic.hits
    if not hits or cosine > hits[-1].value:
        # This happens only in an approximate scan; an exact scan keeps all nearest entries.
        return Reason("semantic", f"similarity {cosine:.4f}; the index, which is approximate, missed it")
    return Reason("semantic", f"similarity {cosine:.4f}; {len(hits)} entries down to {hits[-1].value:.4f} were nearer")


def _keyword_reason(plan: Plan, legs: Legs, verdict: Verdict) -> Reason:
    if legs.keyword is None or (legs.keyword.only_pending and verdict.cosine is not None):
        return Reason("keyword", f"not searched in mode {plan.query.mode}")
    if not verdict.shares_words:
        return Reason("keyword", "shares no word with the query")
    taken = len(legs.keyword.hits)
    if legs.whole and taken < plan.wanted:
        return Reason("keyword", f"has only parts of the identifier; {taken} entries contain all of it")
    return Reason("keyword", f"shares words with the query; {taken} entries share more or rarer ones")
