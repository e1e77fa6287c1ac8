"""The explanation of a hit's score, so that it can be recomputed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.knowledge.search.legs.keyword import COVERAGE_EXPONENT
from app.knowledge.search.results import Explanation, HitExplanation
from app.knowledge.vocabulary import Leg

LEGS: tuple[Leg, ...] = ("semantic", "keyword")

BOOSTS = {
    "type": "for its type",
    "access": "for being read often",
    "verified": "for being verified",
    "identifier": "for matching the identifier exactly",
}


@dataclass(frozen=True, slots=True)
class Term:
    """The term of one leg in a score; `share` is its fraction of the sum, 0 to 1."""

    leg: str
    found: str
    sum: str
    value: float
    share: float


@dataclass(frozen=True, slots=True)
class ScoreWords:
    """The parts of a score: a term for each leg, then the factors, then the score."""

    terms: Sequence[Term]
    total: float
    factors: Sequence[tuple[str, float]]
    score: float
    remark: str


def tell_score(debug: Explanation, hit: HitExplanation) -> ScoreWords:
    """Explain the score of a hit of a search's first page."""
    total = hit.term_of("semantic") + hit.term_of("keyword")
    terms = [_term(debug, hit, leg, total) for leg in LEGS]
    factors = [(BOOSTS.get(name, name), factor) for name, factor in (hit.boosts or {}).items()]
    remarks: list[str] = []
    if hit.rerank_rank is not None:
        remarks.append(f"The reranker then ranked it {hit.rerank_rank} with {hit.rerank_score:.4g}.")
    if debug.diversity:
        remarks.append("Diversity then reorders the hits; their scores do not change.")
    return ScoreWords(terms, total, factors, hit.score, " ".join(remarks))


def _term(debug: Explanation, hit: HitExplanation, leg: Leg, total: float) -> Term:
    value, rank = hit.term_of(leg), hit.rank_in(leg)
    name, raw = ("similarity", hit.similarity) if leg == "semantic" else ("BM25", hit.keyword_score)
    if (debug.legs.semantic if leg == "semantic" else debug.legs.keyword) is None:
        found = "did not run"
    elif rank is None:
        found = "did not find it"
    else:
        found = f"rank {rank}, {name} {raw:.4f}"
    return Term(leg, found, _sum(debug, hit, leg), value, value / total if total else 0.0)


def _sum(debug: Explanation, hit: HitExplanation, leg: Leg) -> str:
    weight = debug.weights.semantic if leg == "semantic" else debug.weights.keyword
    if debug.fusion == "rrf":
        rank = hit.rank_in(leg)
        return "adds nothing" if rank is None else f"{weight:g} / ({debug.rrf_k} + {rank})"
    if leg == "semantic":
        cosine, stretch = hit.cosine, debug.cosine_stretch or 1.0
        if cosine is None:
            return "adds nothing"
        if stretch == 1.0:
            return f"{weight:g} × {max(cosine, 0.0):.4f}"
        return f"{weight:g} × (1 − {stretch:.4g} × {1 - cosine:.4f})"
    score, scale = hit.keyword_score, debug.keyword_scale
    if score is None or not scale:
        return "adds nothing"
    return f"{weight:g} × ({score:.4f} / {scale:.4f})^{COVERAGE_EXPONENT:g}"
