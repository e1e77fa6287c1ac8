"""A hit's score told in words and numbers, so that it can be recomputed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEGS = {"semantic": "meaning", "keyword": "words"}

BOOSTS = {
    "type": "for its type",
    "access": "for how often it is read",
    "verified": "for being verified",
    "identifier": "for having the identifier whole",
}


@dataclass(frozen=True, slots=True)
class Term:
    """What one leg adds to a score; `share` is its part of the sum, 0 to 1."""

    leg: str
    found: str
    sum: str
    value: float
    share: float


@dataclass(frozen=True, slots=True)
class ScoreWords:
    """How a score comes about: a term for each leg, then the factors, then the score."""

    terms: Sequence[Term]
    total: float
    factors: Sequence[tuple[str, float]]
    score: float
    remark: str


def tell_score(debug: Mapping[str, Any], hit: Mapping[str, Any]) -> ScoreWords:
    """The words for one of the hits in a search's `debug_info`."""
    total = hit["semantic_term"] + hit["keyword_term"]
    terms = [_term(debug, hit, leg, total) for leg in LEGS]
    factors = [(BOOSTS.get(name, name), factor) for name, factor in hit["boosts"].items()]
    remark = ""
    if debug["diversity"]:
        remark = "Diversity then reorders the hits; their scores stay as they are."
    return ScoreWords(terms, total, factors, hit["score"], remark)


def _term(debug: Mapping[str, Any], hit: Mapping[str, Any], leg: str, total: float) -> Term:
    value: float = hit[f"{leg}_term"]
    rank = hit[f"{leg}_rank"]
    raw = hit["similarity"] if leg == "semantic" else hit["keyword_score"]
    name = "similarity" if leg == "semantic" else "BM25"
    if debug["legs"][leg] is None:
        found = "did not run"
    elif rank is None:
        found = "did not find it"
    else:
        found = f"rank {rank}, {name} {raw:.4f}"
    return Term(LEGS[leg], found, _sum(debug, hit, leg), value, value / total if total else 0.0)


def _sum(debug: Mapping[str, Any], hit: Mapping[str, Any], leg: str) -> str:
    weight, rank = debug["weights"][leg], hit[f"{leg}_rank"]
    if debug["fusion"] == "rrf":
        return "adds nothing" if rank is None else f"{weight:g} / ({debug['rrf_k']} + {rank})"
    if leg == "semantic":
        cosine = hit["cosine"]
        return "adds nothing" if cosine is None else f"{weight:g} × {max(cosine, 0.0):.4f}"
    score, scale = hit["keyword_score"], debug["keyword_scale"]
    return "adds nothing" if score is None or not scale else f"{weight:g} × {score:.4f} / {scale:.4f}"
